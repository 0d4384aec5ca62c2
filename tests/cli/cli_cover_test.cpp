// autotune cover on the CPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_cover_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliCover : public ProgramTest {
 protected:
  CliCover() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");
  }
};

TEST_F(CliCover, ARangeIsMeasuredAndThenServed) {
  const Result result = run_with_budget({"cover", "--device", "host", "--layout", "nn", "--m",
                                         "8..32", "--n", "16", "--k", "16", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  ASSERT_GE(document.at("points").size(), 1U);
  EXPECT_EQ(document.at("range").at("m"), "8..32");
  EXPECT_EQ(document.at("interrupted"), false);
  EXPECT_EQ(document.at("layouts").at(0).at("layout"), "nn");
  const Json point = document.at("points").at(0);
  EXPECT_GT(point.at("best_us").get<double>(), 0);
  // The records also serve another size of the range.
  const Result query = run({"query", "--device", "host", "--sizes", "31x16x16", "--json"});
  EXPECT_THAT(query.json().at("answers").at(0).at("match").get<std::string>(),
              testing::AnyOf("predicted", "exact"));
  const Result table = run_with_budget(
      {"cover", "--device", "host", "--layout", "nn", "--m", "8", "--n", "16", "--k", "16"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("covered f32, nn, m 8, n 16, k 16"), HasSubstr("configurations")));
  EXPECT_THAT(table.err, HasSubstr("no other sizes"));
}

TEST_F(CliCover, SeveralAlikeDevicesTakePoints) {
  const Result result = run_with_budget({"cover", "--device", "host,host", "--layout", "nn", "--m",
                                         "8..32", "--n", "16", "--k", "16", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("devices"), 2);
  EXPECT_GE(result.json().at("points").size(), 1U);
  const Result unlike = run({"cover", "--device", "host,host:sm_90", "--m", "8"});
  EXPECT_EQ(unlike.status, 2);
  EXPECT_THAT(unlike.err, AllOf(HasSubstr("--device"), HasSubstr("2 kinds")));
  EXPECT_EQ(run({"cover", "--device", "host,host", "--in-process", "--m", "8"}).status, 2);
}

TEST_F(CliCover, MistakesNameTheOption) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"cover", "--device", "host"});
    const Result result = run(options);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(error_of({"--m", "0..5"}), AllOf(HasSubstr("--m"), HasSubstr("0..5")));
  EXPECT_THAT(error_of({"--k", "9..5"}), AllOf(HasSubstr("--k"), HasSubstr("9..5")));
  EXPECT_THAT(error_of({"--n", ""}), HasSubstr("--n"));
  EXPECT_THAT(error_of({"--budget", "0"}), HasSubstr("--budget"));
  EXPECT_THAT(error_of({"--dtype", "f33"}), HasSubstr("f33"));
  EXPECT_THAT(error_of({"--m", "1000000", "--n", "1000000", "--k", "1000000"}),
              HasSubstr("more work or memory"));
}

}  // namespace
}  // namespace cli_test::cli_cover_test
