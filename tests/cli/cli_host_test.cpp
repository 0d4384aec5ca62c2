// The whole program on the CPU: it tunes, stores, answers and serves without a GPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_host_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CliHost : public ProgramTest {
 protected:
  CliHost() { hide_gpus(); }
  Result tune(const std::string& device) {
    return run({"--device", device, "--sizes", "33", "--max-evaluations", "3", "--json"});
  }
};

TEST_F(CliHost, AutoFallsBackToTheCpuAndSaysWhoseTimesTheyAre) {
  const Result result = tune("auto");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("kernels run on the CPU"));
  EXPECT_THAT(result.err, HasSubstr("say nothing about a GPU"));
  const Json tuned = result.json().at("results").at(0);
  EXPECT_THAT(tuned.at("gpu").get<std::string>(), StartsWith("CPU: "));
  EXPECT_EQ(tuned.at("wrong"), Json::array());
  // A second run finds every result stored.
  EXPECT_EQ(tune("host").json().at("results").at(0).at("evaluated"), 0);
}

TEST_F(CliHost, WhatIsStoredForOneEmulatedTargetIsNotServedForAnother) {
  ASSERT_EQ(tune("host").status, 0);
  const auto match = [&](const std::string& device) {
    return run({"query", "--device", device, "--sizes", "33", "--json"})
        .json()
        .at("answers")
        .at(0)
        .at("match");
  };
  EXPECT_EQ(match("host"), "exact");
  EXPECT_EQ(match("host:sm_90"), "default");
  const Json stored = run({"query", "--json"}).json().at("gpus");
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_THAT(stored[0].at("gpu").get<std::string>(), HasSubstr("|host:8.0|"));
}

TEST_F(CliHost, VerifyFindsTheWinnerRightAndCompileStoresForTheCpu) {
  ASSERT_EQ(tune("host").status, 0);
  const Result verified = run({"verify", "--device", "host", "--json"});
  ASSERT_EQ(verified.json().at("results").size(), 1U) << verified.err;
  EXPECT_NE(verified.json().at("results")[0].at("state"), "wrong_result");
  const Result compiled = run({"compile", "--arch", "host", "--sizes", "33", "--json"});
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_EQ(compiled.json().at("kernels").at(0).at("target"), "host:sm_80");
  EXPECT_EQ(run({"compile", "--arch", "host,sm_80", "--sizes", "33"}).status, 2);
}

TEST_F(CliHost, ParametersThatOnlyDoesNotNameHaveTheirDefaults) {
  set("TILEWISE_HOST_FLAGS", "-O0");
  const auto only = [&](const std::string& candidate) {
    const Result result = run({"tune", "--device", "host", "--sizes", "33", "--only", candidate,
                               "--in-process", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json().at("results").at(0).at("candidate").at("configuration");
  };
  const Json whole = only("naive {}");
  Json changed = whole;
  changed["UNROLL"] = whole.at("UNROLL") == 1 ? 4 : 1;
  EXPECT_EQ(only("naive {\"UNROLL\":" + changed["UNROLL"].dump() + "}"), changed);
}

TEST_F(CliHost, AQueryNamesTheCommandThatTunesForTheCpu) {
  unset("TILEWISE_DB");  // the default path may be missing
  const Json answer = run({"query", "--device", "host", "--sizes", "64", "--json"}).json();
  EXPECT_THAT(answer.at("answers").at(0).at("why").get<std::string>(),
              HasSubstr("autotune --device host --sizes 64x64x64"));
}

TEST_F(CliHost, RatesThatAreSmallAreNotWrittenInTflops) {
  ASSERT_EQ(tune("host").status, 0);
  const auto giga = testing::AllOf(HasSubstr("GFLOP/s"), testing::Not(HasSubstr("TFLOP/s")));
  EXPECT_THAT(run({"tune", "--device", "host", "--sizes", "33", "--max-evaluations", "3"}).out,
              giga);
  EXPECT_THAT(run({"query"}).out, giga);
}

TEST_F(CliHost, DevicesListsTheCpuAndWhyThereIsNoGpu) {
  const Result result = run({"devices", "--json"});
  EXPECT_EQ(result.status, 0);
  const Json devices = result.json().at("devices");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].at("index"), "host");
  EXPECT_EQ(devices[0].at("peak_bandwidth"), 0);
  EXPECT_FALSE(result.err.empty());
  EXPECT_EQ(run({"devices", "--device", "host:sm_90"}).status, 0);
  EXPECT_EQ(run({"devices", "--device", "host:sm_10"}).status, 2);
}

TEST_F(CliHost, WithoutACompilerNothingCanBeTunedAndThatIsSaid) {
  set("TILEWISE_CXX", "/nowhere/c++");
  const Result result = tune("host");
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("/nowhere/c++"));
}

}  // namespace
}  // namespace cli_test::cli_host_test
