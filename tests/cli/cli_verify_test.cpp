// verify on the CPU: comparisons, and messages for missing winners.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_verify_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliVerify : public ProgramTest {
 protected:
  CliVerify() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");  // faster compiles outweigh slower kernels
  }
  void store_a_winner() {
    const Result tuned = run({"--device", "host", "--sizes", "33", "--templates", "naive",
                              "--max-evaluations", "1", "--in-process"});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
  }
  Result verify(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"verify", "--device", "host", "--in-process"});
    return run(more);
  }
};

TEST_F(CliVerify, ProblemsThatAreNotStoredAreNamedBesideThoseThatAre) {
  store_a_winner();
  const Result result = verify({"--sizes", "33,40", "--json"});
  EXPECT_EQ(result.status, 6) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("40x40x40"), HasSubstr(database().string()),
                                Not(HasSubstr("33x33x33"))));
  const Json rows = result.json().at("results");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("problem").at("m"), 33);
  EXPECT_EQ(rows[0].at("stored").at("outcome"), "ok");
  EXPECT_FALSE(rows[0].at("now").is_null());
  EXPECT_EQ(rows[1].at("problem").at("m"), 40);
  EXPECT_EQ(rows[1].at("state"), "not stored");
  EXPECT_EQ(rows[1].at("stored"), nullptr);
  const Result table = verify({"--sizes", "40,33"});
  EXPECT_EQ(table.status, 6);
  EXPECT_THAT(table.out, AllOf(HasSubstr("nn 40x40x40"), HasSubstr("not stored")));
}

TEST_F(CliVerify, WithNothingToVerifyItFails) {
  store_a_winner();
  EXPECT_EQ(verify({"--sizes", "40"}).status, 6);
  ASSERT_EQ(run({"db", "delete", "--all"}).status, 0);
  const Result result = verify({"--json"});
  EXPECT_EQ(result.status, 6) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("no winner"), HasSubstr(database().string())));
  EXPECT_EQ(result.json().at("results"), Json::array());
}

TEST_F(CliVerify, WinnersThatCannotBeCheckedAreNoSuccessAndSayWhy) {
  store_a_winner();
  const Json whole = Json::parse(run({"export"}).out);
  Json document = whole;
  document["records"] = document["winners"] = Json::array();
  const auto add = [&](auto change) {
    Json record = whole.at("records").at(0), winner = whole.at("winners").at(0);
    record["id"] = winner["record"] = document["records"].size() + 1;
    change(record);
    document["records"].push_back(record);
    document["winners"].push_back(winner);
  };
  add([](Json& record) { record["problem"]["m"] = 34; });
  add([](Json& record) {
    record["problem"]["m"] = 35;
    record["candidate"]["kernel_template"] = "of_another_version";
  });
  add([](Json& record) {
    record["problem"]["m"] = 36;
    record["candidate"]["configuration"]["TILE_M"] = 77;
  });
  add([](Json& record) { record["problem"]["m"] = record["problem"]["n"] = 1LL << 40; });
  write(file("odd.json"), document.dump());
  set("TILEWISE_DB", file("odd.db"));
  const Result imported = run({"import", file("odd.json")});
  ASSERT_EQ(imported.status, 0) << imported.err;
  const std::map<std::int64_t, std::string> reasons{
      {35, "of_another_version"}, {36, "TILE_M=77"}, {1LL << 40, "are available"}};
  const Json verified = verify({"--json"}).json();
  for (const Json& row : verified.at("results")) {
    const auto reason = reasons.find(row.at("problem").at("m"));
    EXPECT_EQ(row.at("state") == "not checked", reason != reasons.end()) << row;
    if (reason == reasons.end()) continue;
    EXPECT_THAT(row.at("detail").get<std::string>(), HasSubstr(reason->second));
  }
  const Result one = verify({"--sizes", "35x33x33", "-q"});
  EXPECT_EQ(one.status, 6) << "nothing was verified";
  EXPECT_THAT(one.out, AllOf(HasSubstr("not checked"), HasSubstr("of_another_version")));
}

TEST_F(CliVerify, ALargeSpreadHidesNoChangeAndTheToleranceIsShown) {
  store_a_winner();
  Json document = Json::parse(run({"export"}).out);
  ASSERT_EQ(document.at("records").size(), 1U);
  Json& measured = document["records"][0]["measurement"];
  measured["median_us"] = measured.at("median_us").get<double>() / 1000;
  measured["spread"] = 100;
  write(file("fast.json"), document.dump());
  set("TILEWISE_DB", file("fast.db"));
  ASSERT_EQ(run({"import", file("fast.json")}).status, 0);
  const Result result = verify({"--json"});
  EXPECT_EQ(result.status, 6) << result.err;
  const Json row = result.json().at("results").at(0);
  EXPECT_EQ(row.at("state"), "slower");
  EXPECT_EQ(row.at("tolerance"), 0.15);
  EXPECT_GT(row.at("change"), 1);
  EXPECT_THAT(verify().out, AllOf(HasSubstr("tolerance"), HasSubstr("15.0%")));
}

}  // namespace
}  // namespace cli_test::cli_verify_test
