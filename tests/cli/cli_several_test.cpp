// tune on several devices at once. Two workers on the CPU are two identical devices.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "tests/cli/program.hpp"

namespace cli_test::cli_several_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class CliSeveral : public ProgramTest {
 protected:
  CliSeveral() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");  // which compiles faster
    fs::create_directory(file("temporary"));
    set("TMPDIR", file("temporary"));
  }
  std::vector<std::string> tuning(const std::string& devices, const std::string& sizes,
                                  const std::string& evaluations) const {
    return {"tune",        "--device", devices,    "--sizes", sizes,
            "--templates", "tiled",    "--budget", "600",     "--max-evaluations",
            evaluations,   "-v",       "--json"};
  }
  bool has_measured() const {
    const std::string said = read(file("stderr"));
    return said.find(" us") != std::string::npos || said.find(" ms") != std::string::npos;
  }
  std::size_t winners() const {
    std::size_t count = 0;
    const Json stored = run({"query", "--json"}).json();
    for (const Json& gpu : stored.at("gpus")) count += gpu.at("winners").size();
    return count;
  }
  /// The worker processes of this test.
  std::vector<pid_t> workers() const {
    std::vector<pid_t> found;
    std::error_code error;
    for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (read(entry->path() / "environ").find(file("temporary").string()) != std::string::npos &&
          read(entry->path() / "cmdline").find(std::string("worker") + '\0' + "--fd") !=
              std::string::npos)
        found.push_back(std::stoi(name));
    }
    return found;
  }
};

TEST_F(CliSeveral, EveryProblemIsTunedOnceAndShownInTheOrderAsked) {
  const Result result = run(tuning("host,host", "20,40,24,36", "4"));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  std::vector<int> sizes;
  for (const Json& tuned : document.at("results")) {
    sizes.push_back(tuned.at("problem").at("m"));
    EXPECT_GE(tuned.at("measured_on").size(), 1U);
    EXPECT_EQ(tuned.at("measured_on")[0], "host");
    EXPECT_EQ(tuned.at("evaluated"), 4);
    EXPECT_EQ(tuned.at("stored"), "new");
  }
  EXPECT_THAT(sizes, testing::ElementsAre(20, 40, 24, 36));
  EXPECT_EQ(document.at("lost"), Json::array());
  EXPECT_EQ(document.at("devices").size(), 1U) << "of one kind";
  EXPECT_EQ(winners(), 4U);
  EXPECT_THAT(result.err, AllOf(HasSubstr("device host #1: "), HasSubstr("device host #2: ")));
}

TEST_F(CliSeveral, UnlikeDevicesEachTuneTheList) {
  const Result result = run(tuning("host,host:sm_90", "20,24", "2"));
  ASSERT_EQ(result.status, 0) << result.err;
  std::multiset<std::string> on;
  const Json document = result.json();
  for (const Json& tuned : document.at("results")) {
    ASSERT_EQ(tuned.at("measured_on").size(), 1U);
    on.insert(tuned.at("measured_on")[0]);
  }
  EXPECT_THAT(on, testing::ElementsAre("host", "host", "host:sm_90", "host:sm_90"));
  EXPECT_EQ(winners(), 4U);
}

TEST_F(CliSeveral, AKilledWorkerLosesNoProblem) {
  const pid_t pid = start(tuning("host,host", "20,24,28", "30"), "/dev/null");
  ASSERT_TRUE(soon([&] { return has_measured() && workers().size() == 2; }));
  kill(workers().front(), SIGKILL);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  ASSERT_EQ(document.at("results").size(), 3U);
  for (const Json& tuned : document.at("results")) EXPECT_FALSE(tuned.at("winner").is_null());
}

TEST_F(CliSeveral, CtrlCEndsAllWorkersAndKeepsWhatWasMeasured) {
  const pid_t pid = start(tuning("host,host", "20,24,28", "100000"), "/dev/null");
  ASSERT_TRUE(soon([&] { return has_measured() && workers().size() == 2; }));
  kill(pid, SIGINT);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 130) << result.err;
  const Json document = result.json();
  EXPECT_EQ(document.at("interrupted"), true);
  std::size_t won = 0;
  for (const Json& tuned : document.at("results")) won += !tuned.at("winner").is_null();
  EXPECT_GE(won, 1U);
  EXPECT_EQ(winners(), won);
  EXPECT_TRUE(soon([&] { return workers().empty(); }));
  EXPECT_TRUE(fs::is_empty(file("temporary")));
}

TEST_F(CliSeveral, ATerminalShowsALineOfAllAndOneOfEachDevice) {
  set("TERM", "xterm");
  const Result result = run_on_terminal({"--device", "host,host", "--sizes", "20,24", "--templates",
                                         "tiled", "--max-evaluations", "3"});
  if (result.status == -1) GTEST_SKIP() << "no terminals here";
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr(" of 2 problems tuned, about "),
                                HasSubstr("device host #1: "), HasSubstr("\x1b[A\x1b[K")));
}

TEST_F(CliSeveral, OneCandidateIsTriedOnEveryDeviceOfTheList) {
  const Result result =
      run({"tune", "--device", "host,host", "--sizes", "20", "--only", "tiled", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("results").size(), 2U);
}

}  // namespace
}  // namespace cli_test::cli_several_test
