// Signals and closed pipes, on the CPU: measurements are kept, and no compiler, worker or temporary
// folder is left behind.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/cli/program.hpp"

namespace cli_test::cli_signals_test {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class CliSignals : public ProgramTest {
 protected:
  CliSignals() {
    hide_gpus();
    fs::create_directory(file("temporary"));
    set("TMPDIR", file("temporary"));
    set("XDG_CACHE_HOME", file("cache"));
    // The compiler waits only in a test that calls hold_compilers().
    write(file("compiler"),
          "#!/bin/bash\n[[ $1 == --version ]] && exec c++ --version\n"
          "while [[ -e " +
              file("held").string() + " ]]; do\n  touch " + file("compiling").string() +
              "\n  sleep 0.02\ndone\nexec c++ \"$@\"\n");
    chmod(file("compiler").c_str(), 0700);
    set("TILEWISE_CXX", file("compiler"));
  }
  void hold_compilers() const { write(file("held"), ""); }

  pid_t start_tuning(const std::string& evaluations = "100000") const {
    return start({"tune", "--device", "host", "--sizes", "33", "--budget", "120",
                  "--max-evaluations", evaluations, "-v", "--json"},
                 "/dev/null");
  }
  bool has_measured() const { return read(file("stderr")).find(" us") != std::string::npos; }
  std::size_t winners() const {
    const Json gpus = run({"query", "--json"}).json().at("gpus");
    return gpus.empty() ? 0 : gpus[0].at("winners").size();
  }

  /// Processes with this test's settings: workers, compilers and their children.
  int processes() const {
    int count = 0;
    std::error_code error;
    for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error))
      count +=
          read(entry->path() / "environ").find(file("temporary").string()) != std::string::npos;
    return count;
  }
  std::ptrdiff_t folders() const {
    return std::distance(fs::directory_iterator(file("temporary")), fs::directory_iterator());
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(soon([&] { return processes() == 0; })) << processes() << " processes";
    EXPECT_EQ(folders(), 0);
  }
};

TEST_F(CliSignals, TheFirstSignalEndsTheRunInOrderAndTheStatusNamesIt) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t pid = start_tuning();
    ASSERT_TRUE(soon([&] { return has_measured(); }));
    kill(pid, signal);
    const Result result = finish(pid);
    EXPECT_EQ(result.status, 128 + signal) << result.err;
    EXPECT_EQ(result.json().at("interrupted"), true);
    EXPECT_THAT(result.err, HasSubstr("stopping after the current candidate"));
    expect_nothing_left();
    EXPECT_EQ(winners(), 1U);
    fs::remove(database());
  }
}

TEST_F(CliSignals, ASecondSignalEndsCompilersWorkerAndFoldersAtOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    hold_compilers();
    set("TILEWISE_DB", file("of-" + std::to_string(signal) + ".db"));
    const pid_t pid = start_tuning();
    ASSERT_TRUE(soon([&] { return fs::exists(file("compiling")); }));
    EXPECT_GT(folders(), 0);
    EXPECT_GT(processes(), 1);
    kill(pid, SIGINT);
    ASSERT_TRUE(soon([&] { return read(file("stderr")).find("again") != std::string::npos; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto second = Clock::now();
    kill(pid, signal);
    EXPECT_EQ(finish(pid).status, 128 + signal);
    EXPECT_LT(Clock::now() - second, std::chrono::seconds(10));
    expect_nothing_left();
    fs::remove(file("compiling"));
  }
}

/// `timeout` signals its child and then the process group of its child.
TEST_F(CliSignals, TwoSignalsAtOnceAreOne) {
  const pid_t pid = start_tuning();
  ASSERT_TRUE(soon([&] { return has_measured(); }));
  kill(pid, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(pid, SIGTERM);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 128 + SIGTERM);
  EXPECT_EQ(result.json().at("interrupted"), true) << "it ended in order";
  expect_nothing_left();
}

TEST_F(CliSignals, AfterAKillTheNextStartLeavesNothing) {
  hold_compilers();
  const pid_t pid = start_tuning();
  ASSERT_TRUE(soon([&] { return fs::exists(file("compiling")); }));
  kill(pid, SIGKILL);
  EXPECT_EQ(finish(pid).status, -SIGKILL);
  EXPECT_GT(folders(), 0);
  EXPECT_EQ(run({"--version"}).status, 0);
  expect_nothing_left();
}

class CliPipes : public CliSignals {};

TEST_F(CliPipes, AClosedPipeEndsTheRunInOrder) {
  const std::string said = bash(
      "\"$AUTOTUNE\" tune --device host --sizes 33 --budget 120 -v 2>&1 | head -n 1\n"
      "echo status ${PIPESTATUS[0]}");
  EXPECT_THAT(said, HasSubstr("status 141\n"));
  expect_nothing_left();
  EXPECT_EQ(winners(), 1U);
}

TEST_F(CliPipes, ResultsThatAreNotReadAreNoFailureOfTheirOwn) {
  const std::string said = bash(
      "set +e\n(sleep 0.1; \"$AUTOTUNE\" tune --device host --sizes 33 --max-evaluations 1; "
      "echo status $? >&2) | true\nwait");
  EXPECT_THAT(said, HasSubstr("status 141\n"));
  EXPECT_THAT(said, testing::Not(HasSubstr("error")));
  EXPECT_EQ(winners(), 1U);
}

/// Starts the program as nohup and a shell's background job do, with signals ignored.
TEST_F(CliPipes, WhatTheProgramBeganWithIgnoredStaysIgnored) {
  for (const std::string name : {"HUP", "INT", "TERM"}) {
    const std::string said =
        bash("trap '' " + name + "\n\"$AUTOTUNE\" tune --device host --sizes 33 " +
             "--max-evaluations 3 --force -v &\n"
             "for i in 1 2 3 4 5 6; do sleep 0.1; kill -" +
             name + " $!; done\nwait $!\necho status $?");
    EXPECT_THAT(said, HasSubstr("status 0\n")) << name;
    EXPECT_THAT(said, testing::Not(HasSubstr("stopping"))) << name;
  }
  // A script's background job, without job control, ignores SIGINT.
  EXPECT_THAT(bash("\"$AUTOTUNE\" tune --device host --sizes 33 --max-evaluations 3 --force -v &\n"
                   "sleep 0.2; kill -INT $!\nwait $!\necho status $?"),
              HasSubstr("status 0\n"));
}

/// The search continues, and a failed print is an error at its end.
TEST_F(CliPipes, WithoutSigpipeAClosedPipeIsAnErrorOfWriting) {
  const std::string said = bash(
      "trap '' PIPE\n(sleep 0.1; \"$AUTOTUNE\" tune --device host --sizes 33 --max-evaluations 2; "
      "echo status $? >&2) | true\nwait");
  EXPECT_THAT(said, testing::AllOf(HasSubstr("status 1\n"), HasSubstr("cannot write")));
  EXPECT_EQ(winners(), 1U);
}

/// Without SIGCHLD's default action, the program could wait for no worker and no compiler.
TEST_F(CliPipes, ChildrenAreWaitedForWhereSigchldIsIgnored) {
  EXPECT_THAT(bash("trap '' CHLD\n\"$AUTOTUNE\" tune --device host --sizes 33 "
                   "--max-evaluations 2\necho status $?"),
              HasSubstr("status 0\n"));
  EXPECT_EQ(winners(), 1U);
}

}  // namespace
}  // namespace cli_test::cli_signals_test
