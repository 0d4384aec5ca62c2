// Messages about GPUs, with a fake driver that has two GPUs.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_devices_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliDevices : public ProgramTest {
 protected:
  void SetUp() override {
    const std::string source = std::string(TILEWISE_SOURCE_DIR) + "/tests/device/fake_driver.cpp";
    const std::string command =
        "c++ -std=c++17 -shared -fPIC -o '" + file("driver.so").string() + "' '" + source + "'";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no C++ compiler here";
    unset("CUDA_VISIBLE_DEVICES");
    set("TILEWISE_CUDA_DRIVER", file("driver.so"));
  }
};

TEST_F(CliDevices, ListsEveryGpuWithPeaksByFormula) {
  const Json devices = run({"devices", "--json"}).json().at("devices");
  ASSERT_EQ(devices.size(), 3U) << "two GPUs and the CPU";
  EXPECT_EQ(devices[2].at("index"), "host");
  const Json& first = devices[0];
  const double clock = first.at("clock_khz").get<double>() * 1e3;
  EXPECT_DOUBLE_EQ(
      first.at("peak_tflops").get<double>() * 1e12,
      first.at("multiprocessors").get<double>() * first.at("fp32_lanes").get<double>() * 2 * clock);
  EXPECT_DOUBLE_EQ(
      first.at("balance_flop_per_byte").get<double>(),
      first.at("peak_tflops").get<double>() * 1e12 / first.at("peak_bandwidth").get<double>());
  const auto n = first.at("largest_square").get<double>();
  EXPECT_LE(3 * n * n * 4, first.at("status").at("free_bytes").get<double>());
  EXPECT_EQ(run({"devices", "--device", "1", "--json"}).json().at("devices")[0].at("index"), 1);
  EXPECT_EQ(
      run({"devices", "--device", devices[1].at("uuid"), "--json"}).json().at("devices").size(),
      1U);
}

TEST_F(CliDevices, TheTableFitsTheTerminal) {
  set("COLUMNS", "60");
  const Result result = run({"devices"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LE(widest_line(result.out), 60U) << result.out;
  EXPECT_THAT(result.out, HasSubstr("NVIDIA"));
}

TEST_F(CliDevices, ADeviceThatIsNotThereIsAnsweredWithThoseThatAre) {
  for (const std::string device : {"9", "GPU-ffff"}) {
    const Result result = run({"--device", device, "--sizes", "64"});
    EXPECT_EQ(result.status, 3);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(device), HasSubstr("0 (NVIDIA"), HasSubstr("1 (NVIDIA")));
  }
}

TEST_F(CliDevices, WhatDoesNotFitIsRefusedBeforeTuningWithBothNumbers) {
  const Result result = run({"--sizes", "64,17000"});
  EXPECT_EQ(result.status, 7);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("17000x17000x17000"), testing::ContainsRegex("needs [0-9.]+ GiB"),
                    testing::ContainsRegex("; [0-9.]+ [GM]iB")));
}

TEST_F(CliDevices, QueryAnswersForAGpuOfThisMachine) {
  ASSERT_EQ(run({"db", "info", "--db", file("none.db")}).status, 5);
  unset("TILEWISE_DB");
  const Json answers =
      run({"query", "--device", "all", "--sizes", "64", "--dtype", "f16", "--out", "f32", "--json"})
          .json()
          .at("answers");
  ASSERT_EQ(answers.size(), 2U);
  for (const Json& answer : answers) EXPECT_EQ(answer.at("match"), "default");
  EXPECT_NE(answers[0].at("gpu"), answers[1].at("gpu"));
}

TEST_F(CliDevices, AlikeGpusThatAreLeftOutAreNamed) {
  set("FAKE_CUDA_COUNT", "4");
  set("FAKE_CUDA_ALIKE", "1");
  ASSERT_NE(run({"--device", "9", "--sizes", "64"}).status, 0);  // creates the database
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"verify", "--device", "all"},
                                             {"query", "--device", "all"},
                                             {"query", "--device", "all", "--sizes", "64"}}) {
    std::vector<std::string> words = command;
    words.push_back("--json");
    const Result result = run(words);
    EXPECT_THAT(result.err, AllOf(HasSubstr("3 more GPUs"), HasSubstr("left out: 1, 2, 3;"),
                                  HasSubstr("share their records")));
    const Json left_out = result.json().at("left_out");
    ASSERT_EQ(left_out.size(), 3U) << command[0];
    EXPECT_EQ(left_out[2].at("index"), 3);
    EXPECT_EQ(left_out[2].at("used"), 0);
    EXPECT_NE(left_out[2].at("uuid"), left_out[1].at("uuid"));
  }
  const Result one = run({"query", "--device", "1", "--json"});
  EXPECT_EQ(one.err, "");
  EXPECT_EQ(one.json().at("left_out"), Json::array());
  const Result tuned = run({"--device", "all", "--sizes", "64"});
  EXPECT_THAT(tuned.err, testing::Not(HasSubstr("left out"))) << "alike GPUs share the work";
}

TEST_F(CliDevices, AListNamesEachGpuOnce) {
  const Json devices = run({"devices", "--device", "1,0", "--json"}).json().at("devices");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].at("index"), 1);
  const std::string uuid = devices[1].at("uuid");
  for (const std::string& list : {std::string("0,0"), "0," + uuid, "1,host," + uuid + ",0"}) {
    const Result twice = run({"--device", list, "--sizes", "64"});
    EXPECT_EQ(twice.status, 2) << list;
    EXPECT_THAT(twice.err, AllOf(HasSubstr("GPU 0 (NVIDIA"), HasSubstr("twice")));
  }
  EXPECT_EQ(run({"--device", "0,9", "--sizes", "64"}).status, 3);
  for (const char* list : {"0,auto", "all,1", "0,x", ","}) {
    const Result wrong = run({"--device", list, "--sizes", "64"});
    EXPECT_EQ(wrong.status, 2) << list;
    EXPECT_THAT(wrong.err, AllOf(HasSubstr("--device"), HasSubstr("an index (0, 1, ...)")));
  }
  EXPECT_EQ(
      run({"query", "--device", "0,1", "--sizes", "64", "--json"}).json().at("answers").size(),
      1U + (devices[0].at("gpu") != devices[1].at("gpu")));
}

TEST_F(CliDevices, WhatTakesOneDeviceRefusesSeveral) {
  const Result ladder = run({"ladder", "--device", "0,1"});
  EXPECT_EQ(ladder.status, 2);
  EXPECT_THAT(ladder.err, AllOf(HasSubstr("one GPU"), HasSubstr("not 0,1")));
  const Result inside = run({"--device", "0,1", "--sizes", "64", "--in-process"});
  EXPECT_EQ(inside.status, 2);
  EXPECT_THAT(inside.err, AllOf(HasSubstr("--in-process"), HasSubstr("one device")));
}

TEST_F(CliDevices, AFailureInTheWorkerProcessIsReportedInItsOwnWords) {
  const Result result = run({"--sizes", "64", "--only", "naive", "--json"});
  if (result.status == 4) GTEST_SKIP() << "no NVRTC: " << result.err;
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_EQ(result.json().at("error").at("kind"), "device");
  EXPECT_THAT(result.err, HasSubstr("words of the fake"));
}

TEST_F(CliDevices, CpuIsAnotherNameOfHost) {
  for (const auto& [given, name] : std::map<std::string, std::string>{
           {"cpu", "host"}, {"cpu:sm_90", "host:sm_90"}, {"host", "host"}}) {
    const Result asked = run({"devices", "--device", given, "--json"});
    ASSERT_EQ(asked.status, 0) << asked.err;
    EXPECT_EQ(asked.json().at("devices").at(0).at("index"), name);
  }
  EXPECT_EQ(run({"tune", "--device", "cpu", "--sizes", "8", "--max-evaluations", "1"}).status, 0);
}

TEST_F(CliDevices, OtherTextsListTheNames) {
  for (const char* name : {"HOST", "Cpu", "gpu", "-1", "", "cpus", "host:", "cpu:x"}) {
    const Result asked = run({"tune", "--sizes", "8", std::string("--device=") + name});
    EXPECT_EQ(asked.status, 2) << name << asked.err;
    EXPECT_NE(asked.err.find("host"), std::string::npos) << asked.err;
    EXPECT_EQ(asked.err.find("driver"), std::string::npos) << asked.err;
  }
}

}  // namespace
}  // namespace cli_test::cli_devices_test
