// `autotune replay`: strategies on recorded times.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_replay_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class CliReplay : public ProgramTest {
 protected:
  std::string recorded() const {
    std::string csv = "TILE_M,TILE_N,PAD,median_ms\n";
    for (int m = 8; m <= 128; m *= 2)
      for (int n = 8; n <= 128; n *= 2)
        for (int pad = 0; pad < 2; ++pad)
          csv += std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(pad) + "," +
                 (m * n > 8192 ? "" : std::to_string(1 + std::abs(m - 64) / 64.0 + n / 128.0)) +
                 "\n";
    return csv;
  }
};

TEST_F(CliReplay, PrintsWhatEachStrategyReachesAndWhichMean) {
  write(file("recorded.csv"), recorded());
  const Result result = run({"replay", file("recorded.csv").string(), "--repeats", "3",
                             "--evaluations", "40", "--under-way", "4"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("50 configurations, 2 of them failed"));
  for (const char* name : {"random, calculated", "local", "model"})
    EXPECT_THAT(result.out, HasSubstr(name));
  EXPECT_THAT(result.out, Not(HasSubstr("exhaustive")));
  EXPECT_THAT(result.err, HasSubstr("mean over the repeats of the best time of all over the best"));
}

TEST_F(CliReplay, ReadsStandardInputAndPrintsJson) {
  write(file("recorded.csv"), recorded());
  const Result result = run({"replay", "-", "--strategy", "model", "--repeats", "2",
                             "--evaluations", "50", "--shuffle-values", "--json"},
                            file("recorded.csv"));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_THAT(document.at("mean"), HasSubstr("mean over the repeats"));
  const auto& space = document.at("spaces").at(0);
  EXPECT_EQ(space.at("failed"), 2);
  EXPECT_EQ(space.at("strategies").at(1).at("strategy"), "model");
  EXPECT_EQ(space.at("strategies").at(1).at("reached").at("50"), 1) << "the space is used up";
  EXPECT_EQ(space.at("strategies").at(1).at("curve").size(), 50u);
}

TEST_F(CliReplay, RefusesWhatItCannotReadOrDoesNotKnow) {
  write(file("other.csv"), "A,B\n1,2\n");
  EXPECT_EQ(run({"replay", file("other.csv").string()}).status, 2);
  EXPECT_EQ(run({"replay", file("absent.csv").string()}).status, 2);
  const Result unknown = run({"replay", file("other.csv").string(), "--strategy", "guess"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("all, local, model"));
}

}  // namespace
}  // namespace cli_test::cli_replay_test
