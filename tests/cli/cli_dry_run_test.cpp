// `tune --dry-run`: the work of a search.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/cli/program.hpp"

namespace cli_test::cli_dry_run_test {
namespace {

using testing::HasSubstr;

class CliDryRun : public ProgramTest {};

TEST_F(CliDryRun, SaysSpaceRefusalsAndTimeAndChangesNothing) {
  const std::vector<std::string> command{"tune",  "--device",    "host",        "--sizes",
                                         "33,34", "--templates", "naive,tiled", "--budget",
                                         "7s",    "--dry-run"};
  const Result text = run(command);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("refused first by"));
  EXPECT_THAT(text.out, HasSubstr("in all 14 s"));
  EXPECT_FALSE(fs::exists(database()));
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const Json json = run(as_json).json();
  EXPECT_EQ(json.at("expected_seconds"), 14);
  EXPECT_EQ(json.at("searches").size(), 2u);
  EXPECT_EQ(json.at("searches").at(0).at("spaces").size(), 2u);
  EXPECT_TRUE(json.at("searches").at(0).at("expected_candidates").is_null());
}

TEST_F(CliDryRun, ExpectsTheRateOfEarlierSearches) {
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "33", "--budget", "600",
                 "--max-evaluations", "3", "--templates", "naive"})
                .status,
            0);
  const Json search = run({"tune", "--device", "host", "--sizes", "34", "--budget", "1h",
                           "--max-evaluations", "5", "--templates", "naive", "--dry-run", "--json"})
                          .json()
                          .at("searches")
                          .at(0);
  EXPECT_EQ(search.at("expected_candidates"), 5);
  EXPECT_LT(search.at("expected_seconds"), 300);
  EXPECT_GT(search.at("expected_seconds"), 0);
}

/// A problem has the same work in a list as alone, where it is counted exactly.
TEST_F(CliDryRun, AListSharesTheDrawsAndItsErrorsAreTrue) {
  std::string list = "m,n,k\n";
  for (int i = 0; i < 40; ++i) list += std::to_string(512 + 8 * i) + ",512,512\n";
  write(file("list.csv"), list);
  const auto searches = [&](const char* option, const std::string& problems) {
    const Result result = run(
        {"tune", "--device", "host:sm_90", option, problems, "--templates", "simt", "--subspace",
         "TILE_M=64;TILE_N=64;THREAD_M=4,8;GROUP_M=1;FMA_ORDER=0;SPECIALIZE_SIZE=0;"
         "MAX_REGISTERS=0;UNROLL=8",
         "--dry-run", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json().at("searches");
  };
  const Json alone = searches("--sizes", "512").at(0).at("spaces").at(0);
  EXPECT_EQ(alone.at("draws"), 20'000);
  ASSERT_EQ(alone.at("valid_is_exact"), true);
  const Json listed = searches("--problems", file("list.csv"));
  ASSERT_EQ(listed.size(), 40U);
  for (const Json& search : listed) {
    const Json& space = search.at("spaces").at(0);
    EXPECT_EQ(space.at("draws"), 500) << "20,000 shared by 40, and at least 500";
    EXPECT_EQ(space.at("valid_is_exact"), false);
    EXPECT_GT(space.at("valid_standard_error"), 0);
  }
  const Json& first = listed.at(0).at("spaces").at(0);
  EXPECT_LT(std::abs(first.at("valid").get<double>() - alone.at("valid").get<double>()),
            4 * first.at("valid_standard_error").get<double>());
}

TEST_F(CliDryRun, SaysHowFarItIs) {
  set("TERM", "xterm");
  const Result result = run_on_terminal(
      {"tune", "--device", "host", "--sizes", "33,34,35", "--templates", "naive", "--dry-run"});
  if (result.status == -1) GTEST_SKIP() << "no terminals here";
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("problem 1 of 3"));
  const Result quiet = run_on_terminal(
      {"tune", "-q", "--device", "host", "--sizes", "33", "--templates", "naive", "--dry-run"});
  EXPECT_THAT(quiet.err, testing::Not(HasSubstr("problem 1")));
}

}  // namespace
}  // namespace cli_test::cli_dry_run_test
