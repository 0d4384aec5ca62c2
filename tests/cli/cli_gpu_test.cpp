// The whole program on a GPU: tune, tune again without work, query, verify, interrupt.
#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "tests/cli/program.hpp"

namespace cli_test::cli_gpu_test {
namespace {

using testing::HasSubstr;

class CliGpu : public ProgramTest {
 protected:
  void SetUp() override {
    const Result devices = run({"devices", "--device", "0"});
    if (devices.status == 3) GTEST_SKIP() << devices.err;
    ASSERT_EQ(devices.status, 0) << devices.err;
  }
  static std::vector<std::string> tune(std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--sizes", "96", "--max-evaluations", "4", "--budget", "60", "--json"});
    return more;
  }
};

TEST_F(CliGpu, TunesThenFindsEverythingStored) {
  const Result first = run(tune({}));
  ASSERT_EQ(first.status, 0) << first.err;
  const Json result = first.json().at("results")[0];
  EXPECT_EQ(result.at("winner").at("outcome"), "ok");
  EXPECT_EQ(result.at("stored"), "new");
  EXPECT_GT(result.at("evaluated"), 0);
  EXPECT_GT(result.at("winner").at("predicted_us"), 0);
  EXPECT_GT(result.at("ranked"), 0);
  const Json again = run(tune({})).json().at("results")[0];
  EXPECT_EQ(again.at("evaluated"), 0);
  EXPECT_EQ(again.at("compiled"), 0);
  EXPECT_EQ(again.at("stored"), "kept");
  EXPECT_EQ(again.at("winner").at("candidate"), result.at("winner").at("candidate"));
  const Json answer =
      run({"query", "--device", "0", "--sizes", "96", "--json"}).json().at("answers")[0];
  EXPECT_EQ(answer.at("match"), "exact");
  EXPECT_EQ(answer.at("candidate"), result.at("winner").at("candidate"));
}

TEST_F(CliGpu, VerifyTimesTheStoredWinnerAgain) {
  ASSERT_EQ(run(tune({})).status, 0);
  const Result result = run({"verify", "--json"});
  EXPECT_TRUE(result.status == 0 || result.status == 6) << result.err;
  const Json verdict = result.json().at("results")[0];
  EXPECT_THAT((std::vector<std::string>{"same", "faster", "slower"}),
              testing::Contains(verdict.at("state").get<std::string>()));
  EXPECT_GT(verdict.at("now").at("median_us"), 0);
}

TEST_F(CliGpu, OneCandidateAloneIsTriedAndNotStored) {
  for (const std::string where : {"--in-process", "--warm"}) {
    const Result result = run({"--sizes", "65x33x17", "--only", "tiled", where, "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json trial = result.json().at("results")[0];
    EXPECT_EQ(trial.at("outcome"), "ok");
    EXPECT_EQ(trial.at("candidate").at("kernel_template"), "tiled");
    EXPECT_GT(trial.at("measurement").at("median_us"), 0);
    EXPECT_GT(trial.at("predicted").at("seconds"), 0);
    EXPECT_EQ(trial.at("predicted").at("steps").size(), trial.at("plan").at("steps").size());
  }
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 0);
}

// Each type is validated against its documented bound, on an odd size and in a batch.
TEST_F(CliGpu, EveryTypeThisGpuHasIsTunedAndVerified) {
  const std::vector<std::vector<std::string>> kinds = {{"f64"},
                                                       {"f16"},
                                                       {"f16", "--out", "f32"},
                                                       {"bf16"},
                                                       {"i8"},
                                                       {"e4m3"},
                                                       {"e5m2", "--out", "f16"},
                                                       {"f32", "--math", "tf32"},
                                                       {"f32", "--math", "f32x3"}};
  int tuned = 0;
  for (const std::vector<std::string>& kind : kinds) {
    std::vector<std::string> words = {"--sizes", "97x65x1030", "--layout", "tn",
                                      "--batch", "2",          "--json",   "--max-evaluations",
                                      "3",       "--dtype"};
    words.insert(words.end(), kind.begin(), kind.end());
    const Result result = run(words);
    if (result.status == 2) continue;  // not on this GPU; another test checks the message
    ASSERT_EQ(result.status, 0) << kind.front() << ": " << result.err;
    for (const Json& one : result.json().at("results")) {
      EXPECT_EQ(one.at("winner").at("outcome"), "ok") << kind.front();
      EXPECT_FALSE(one.at("outcomes").contains("wrong_result")) << kind.front();
    }
    ++tuned;
  }
  EXPECT_GE(tuned, 4) << "f64, f16, i8 and one more are everywhere";
}

TEST_F(CliGpu, DevicesStatePeakRateAndBandwidth) {
  const Json device = run({"devices", "--device", "0", "--json"}).json().at("devices")[0];
  EXPECT_GT(device.at("peak_tflops"), 0.1);
  EXPECT_GT(device.at("peak_bandwidth"), 1e10);
  EXPECT_GT(device.at("largest_square"), 1024);
  EXPECT_EQ(run({"devices", "--device", "9"}).status, 3);
}

TEST_F(CliGpu, ASizeThatDoesNotFitIsRefusedWithBothNumbers) {
  const Result result = run({"--sizes", "400000"});
  EXPECT_EQ(result.status, 7);
  EXPECT_THAT(result.err, HasSubstr("iB"));
}

TEST_F(CliGpu, AnInterruptKeepsWhatWasMeasured) {
  const pid_t pid = start({"--sizes", "512", "--budget", "10m", "--json"}, "/dev/null");
  bool measured = false;
  for (int i = 0; i < 600 && !measured; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    measured = read(file("stderr")).find("best ") != std::string::npos;
  }
  EXPECT_TRUE(measured) << read(file("stderr"));
  kill(pid, SIGINT);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 130) << result.err;
  const Json document = result.json();
  EXPECT_TRUE(document.at("interrupted"));
  EXPECT_FALSE(document.at("results")[0].at("winner").is_null());
  EXPECT_GT(run({"db", "info", "--json"}).json().at("counts").at("records"), 0);
}

}  // namespace
}  // namespace cli_test::cli_gpu_test
