// Grouped products on the command line, on the CPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_grouped_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliGrouped : public ProgramTest {
 protected:
  CliGrouped() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");
  }
  Result tune(std::vector<std::string> more) {
    std::vector<std::string> all{"tune", "--device", "host", "--max-evaluations",
                                 "2",    "--budget", "600",  "--finalists",
                                 "1",    "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  Json explained(std::vector<std::string> more) {
    std::vector<std::string> all{"explain", "--device", "host", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = run(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json().at("explanations").at(0);
  }
};

TEST_F(CliGrouped, AreTunedByDistributionAndServeOthers) {
  const Result result = tune({"--groups", "3", "--rows", "20,40", "--sizes", "1x24x16", "--layout",
                              "nt", "--distribution", "zipf"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json results = result.json().at("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].at("problem").at("grouped"), "rows zipf");
  EXPECT_EQ(results[0].at("problem").at("m"), 20);
  EXPECT_EQ(results[1].at("problem").at("m"), 40);
  const std::vector<std::string> kind{"--sizes", "40x24x16", "--layout", "nt", "--groups", "3"};
  const auto with = [&kind](std::vector<std::string> more) {
    more.insert(more.begin(), kind.begin(), kind.end());
    return more;
  };
  EXPECT_EQ(explained(with({"--distribution", "zipf"})).at("match"), "exact");
  const Json even = explained(with({}));
  EXPECT_EQ(even.at("match"), "predicted");
  EXPECT_GT(even.at("distance"), 0);
  EXPECT_EQ(explained(with({"--grouped", "counts"})).at("match"), "predicted");
  // The list of what is stored names them as options that are read again.
  const Result listed = run({"query", "--device", "host"});
  EXPECT_THAT(listed.out, HasSubstr("grouped by rows zipf"));
}

// Those grouped by rows, half as many as there can be, which serve them.
TEST_F(CliGrouped, ProductsByCountsAreTunedAsOthers) {
  const std::string list = file("list.csv").string();
  write(list,
        "m,n,k,layout,batch,grouped\n"
        "7,24,16,nt,3,counts\n"
        "8,24,16,nt,1,\n");
  const Result result = tune({"--problems", list});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json results = result.json().at("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].at("problem").at("grouped"), "rows even");
  EXPECT_EQ(results[0].at("problem").at("m"), 11);
  EXPECT_FALSE(results[1].at("problem").contains("grouped"));
  const std::vector<std::string> counts{"--sizes",  "7x24x16", "--layout",  "nt",
                                        "--groups", "3",       "--grouped", "counts"};
  const Json served = explained(counts);
  EXPECT_EQ(served.at("match"), "predicted");
  EXPECT_LT(served.at("distance"), 0.2);
}

TEST_F(CliGrouped, DifferentDepthsAreTuned) {
  const Result result =
      tune({"--groups", "4", "--grouped", "depth", "--sizes", "16x24x50", "--layout", "tn"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("results").at(0).at("problem").at("grouped"), "depth even");
  const Result wrong = tune({"--groups", "4", "--grouped", "depth", "--sizes", "16x24x50"});
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("depth"), HasSubstr("tn")));
}

TEST_F(CliGrouped, RangesOfDifferentDepthsAreCovered) {
  const auto cover = [this](const char* layout) {
    return run({"cover", "--device", "host", "--groups", "3", "--grouped", "depth", "--layout",
                layout, "--m", "16", "--n", "24", "--k", "50", "--budget", "5s", "--json"});
  };
  const Result result = cover("tn");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("points").at(0).at("problem").at("grouped"), "depth even");
  const Result wrong = cover("nt");
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.err, HasSubstr("which is tn"));
}

TEST_F(CliGrouped, RangesOfRowsAreCovered) {
  const auto cover = [this](const char* grouped) {
    return run({"cover", "--device", "host", "--groups", "3", "--grouped", grouped, "--layout",
                "nt", "--rows", "16..64", "--n", "24", "--k", "20", "--budget", "5s", "--json"});
  };
  const Result result = cover("rows");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json problem = result.json().at("points").at(0).at("problem");
  EXPECT_EQ(problem.at("grouped"), "rows even");
  EXPECT_GE(problem.at("m"), 16);
  const Result counts = cover("counts");
  EXPECT_EQ(counts.status, 2);
  EXPECT_THAT(counts.err, HasSubstr("cover takes rows and depth"));
}

TEST_F(CliGrouped, OptionsThatDoNotFitAreRefused) {
  EXPECT_EQ(run({"query", "--sizes", "8", "--distribution", "zipf"}).status, 2);
  EXPECT_EQ(run({"query", "--sizes", "8", "--rows", "9"}).status, 2);
  EXPECT_EQ(run({"query", "--sizes", "8", "--groups", "2", "--batch", "2"}).status, 2);
  EXPECT_THAT(
      run({"query", "--device", "host", "--sizes", "8", "--groups", "2", "--rows", "8,x"}).err,
      HasSubstr("--rows: 'x' is not allowed"));
  EXPECT_THAT(
      run({"query", "--device", "host", "--sizes", "8", "--groups", "2", "--distribution", "odd"})
          .err,
      AllOf(HasSubstr("--distribution"), HasSubstr("one_hot")));
}

}  // namespace
}  // namespace cli_test::cli_grouped_test
