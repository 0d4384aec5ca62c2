// The ladder on the CPU: every rung is right, in order and in the figure.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_ladder_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CliLadder : public ProgramTest {
 protected:
  CliLadder() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");  // faster compiles outweigh slower kernels
  }
  Result ladder(std::vector<std::string> more) {
    std::vector<std::string> words{"ladder", "--device", "host", "--size", "36x20x28"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  /// Stores winners without a search: a template's default for strict f32, tf32 and f32x3.
  void store_a_winner() {
    for (const auto& [math, kernel] :
         {std::pair{"strict", "naive"}, {"tf32", "mma"}, {"f32x3", "mma"}}) {
      const Result tuned = run({"tune", "--device", "host", "--sizes", "36x20x28", "--math", math,
                                "--templates", kernel, "--max-evaluations", "1", "--in-process"});
      ASSERT_EQ(tuned.status, 0) << tuned.err;
    }
  }
};

TEST_F(CliLadder, EveryRungIsRightInOrderAndComparedWithTheOneBefore) {
  store_a_winner();
  const Result result = ladder({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  EXPECT_EQ(document.at("problem").at("m"), 36);
  EXPECT_FALSE(document.at("cold"));
  const Json& rungs = document.at("rungs");
  std::vector<std::string> names;
  for (const Json& rung : rungs) {
    names.push_back(rung.at("name"));
    EXPECT_EQ(rung.at("outcome"), "ok") << rung;
    EXPECT_EQ(rung.at("rung"), names.size());
    EXPECT_GT(rung.at("tflops"), 0);
    EXPECT_LE(rung.at("error_ratio"), 1);
    EXPECT_GT(rung.at("error_ratio"), 0);
    EXPECT_EQ(rung.at("candidate").is_null(), rung.at("name") == "cpu");
    EXPECT_EQ(rung.at("bytes_per_flop").is_null(), rung.at("name") == "cpu");
  }
  EXPECT_THAT(names, ElementsAre("cpu", "naive", "tiled, B uncoalesced", "tiled, bank conflicts",
                                 "tiled, conflict-free", "outer product", "unrolled", "prefetch",
                                 "tuned", "tuned, tf32", "tuned, f32x3"));
  EXPECT_TRUE(rungs[0].at("times_before").is_null());
  EXPECT_TRUE(rungs[1].at("times_before").is_null()) << "the CPU multiplies in f64";
  const double before = rungs[1].at("tflops"), after = rungs[2].at("tflops");
  EXPECT_DOUBLE_EQ(rungs[2].at("times_before"), after / before);
  // Tiles of 16 load a sixteenth of the naive kernel's bytes, except at the edges.
  EXPECT_GT(rungs[1].at("bytes_per_flop"), 2 * rungs[2].at("bytes_per_flop").get<double>());
  const auto of = [&](std::size_t i, const char* parameter) {
    return rungs[i].at("candidate").at("configuration").at(parameter).get<int>();
  };
  EXPECT_THAT((std::vector{of(2, "READ_B"), of(3, "READ_B"), of(4, "READ_B")}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT((std::vector{of(5, "PREFETCH"), of(6, "PREFETCH"), of(7, "PREFETCH")}),
              ElementsAre(0, 0, 2));
  EXPECT_LT(of(5, "UNROLL"), of(6, "UNROLL"));
  EXPECT_EQ(rungs[8].at("candidate").at("kernel_template"), "naive") << "the stored winner";
  EXPECT_EQ(rungs[8].at("before"), 8);
  for (const std::size_t i : {9, 10}) {
    EXPECT_EQ(rungs[i].at("arithmetic"), i == 9 ? "tf32" : "f32x3");
    EXPECT_TRUE(rungs[i].at("times_before").is_null()) << "below it is other arithmetic";
    EXPECT_TRUE(rungs[i].at("share_of_peak").is_null()) << "the peak is that of f32";
  }
  EXPECT_GT(rungs[8].at("share_of_peak"), 0);
  const auto error_of = [&](std::size_t i) { return rungs[i].at("normwise_error").get<double>(); };
  EXPECT_GT(error_of(9), 10 * error_of(8)) << "11 bits instead of 24";
  EXPECT_LT(error_of(10), 4 * error_of(8)) << "two parts are nearly all of them";
}

TEST_F(CliLadder, WithoutAWinnerItTunesForOneAndStoresIt) {
  const Result result =
      run_with_budget({"ladder", "--device", "host", "--size", "36x20x28", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.json().at("rungs").back().at("what").get<std::string>(),
              HasSubstr("tuned just now"));
  const Json query = run({"query", "--device", "host", "--sizes", "36x20x28", "--json"}).json();
  EXPECT_EQ(query.at("answers").at(0).at("match"), "exact");
}

TEST_F(CliLadder, TheTableShowsEveryRungAndThePeak) {
  store_a_winner();
  const Result result = ladder({});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {"cpu", "tiled, bank conflicts", "prefetch", "tuned", "peak"})
    EXPECT_THAT(result.out, HasSubstr(name));
  for (const char* head : {"speedup", "of f32 peak", "error/bound", "norm-wise error", "FLOP/s"})
    EXPECT_THAT(result.out, HasSubstr(head));
}

TEST_F(CliLadder, BadInputIsRefusedWithWhatIsAllowed) {
  EXPECT_EQ(run({"ladder", "--device", "host", "--size", "64,128"}).status, 2);
  EXPECT_THAT(run({"ladder", "--device", "host", "--size", "64,128"}).err,
              HasSubstr("takes one, N or MxNxK"));
  EXPECT_THAT(run({"ladder", "--device", "all"}).err, HasSubstr("takes one GPU"));
  EXPECT_EQ(run({"ladder", "--device", "host", "--size", "0"}).status, 2);
  EXPECT_EQ(run({"ladder", "--device", "host", "--budget", "0"}).status, 2);
  EXPECT_EQ(run({"ladder", "--device", "host", "--size", "1000000"}).status, 7);
}

}  // namespace
}  // namespace cli_test::cli_ladder_test
