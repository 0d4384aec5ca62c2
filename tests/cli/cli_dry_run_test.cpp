// `tune --dry-run`: what a search would do.
#include <gmock/gmock.h>

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
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "33", "--budget", "3s", "--max-evaluations",
                 "3", "--templates", "naive"})
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

}  // namespace
}  // namespace cli_test::cli_dry_run_test
