// Limits that a machine's owner sets: control groups, affinity, sizes of files, locks.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "db/database.hpp"
#include "db/sqlite.hpp"
#include "tests/cli/program.hpp"

namespace cli_test::cli_limits_test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class CliLimits : public ProgramTest {
 protected:
  CliLimits() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");  // which compiles faster
  }
  static std::vector<std::string> tuning(const std::string& size) {
    return {"tune",  "--device", "host", "--sizes", size, "--templates",
            "tiled", "--budget", "600",  "--jobs",  "1",  "--max-evaluations",
            "1",     "--json"};
  }
  /// Runs the program after a shell command.
  Result run_after(const std::string& line, const std::vector<std::string>& arguments) {
    std::string command = line + " && exec '" + std::string(TILEWISE_AUTOTUNE) + "'";
    for (const std::string& word : arguments) command += " '" + word + "'";
    return run_program("/bin/sh", {"-c", command});
  }
};

/// A control group with a memory limit; empty if this machine does not allow it.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::int64_t mebibytes) {
    std::ifstream own("/proc/self/cgroup");
    for (std::string line; std::getline(own, line);) {
      const auto at = line.find(":memory:");
      const bool second = line.starts_with("0::");
      if (at == std::string::npos && !second) continue;
      const std::string group = second ? line.substr(3) : line.substr(at + 8);
      const fs::path parent = (second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + group;
      const fs::path made = parent / ("tilewise-test-" + std::to_string(getpid()));
      if (mkdir(made.c_str(), 0755) != 0) continue;
      std::ofstream limit(made / (second ? "memory.max" : "memory.limit_in_bytes"));
      limit << (mebibytes << 20) << std::flush;
      if (limit) {
        folder_ = made;
        return;
      }
      rmdir(made.c_str());
    }
  }
  ~MemoryGroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  bool allowed() const { return !folder_.empty(); }
  std::string enter() const { return "echo $$ > " + (folder_ / "cgroup.procs").string(); }

 private:
  fs::path folder_;
};

TEST_F(CliLimits, WhatAControlGroupCannotHoldIsRefusedBeforeItIsAllocated) {
  const MemoryGroup group(300);
  if (!group.allowed()) GTEST_SKIP() << "control groups cannot be made here";
  for (const std::vector<std::string>& words :
       {tuning("3000"),
        {"tune", "--device", "host", "--sizes", "3000", "--only", "tiled"},
        {"ladder", "--device", "host", "--sizes", "3000"}}) {
    const Result result = run_after(group.enter(), words);
    EXPECT_EQ(result.status, 7) << words.front() << ": " << result.err;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("3000x3000x3000"), HasSubstr("needs"), HasSubstr("are available")));
  }
}

TEST_F(CliLimits, WhatAControlGroupHoldsRunsInIt) {
  const MemoryGroup group(400);
  if (!group.allowed()) GTEST_SKIP() << "control groups cannot be made here";
  const Result result = run_after(group.enter(), tuning("200"));
  EXPECT_EQ(result.status, 0) << result.err;
}

/// The same with planted files over /proc and /sys, in a mount namespace.
TEST_F(CliLimits, ThePlantedLimitOfAGroupIsKept) {
  fs::create_directories(file("group"));
  write(file("group") / "memory.max", std::to_string(300 << 20));
  write(file("group") / "memory.current", std::to_string(20 << 20));
  write(file("own"), "0::/\n");
  write(file("mounts"), "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  const std::string planted = "mount --bind '" + file("group").string() +
                              "' /sys/fs/cgroup && mount --bind '" + file("own").string() +
                              "' /proc/$$/cgroup && mount --bind '" + file("mounts").string() +
                              "' /proc/$$/mountinfo";
  if (run_program("/usr/bin/unshare", {"-m", "/bin/sh", "-c", planted}).status != 0)
    GTEST_SKIP() << "files cannot be mounted here";
  std::string command =
      planted + " && exec '" + std::string(TILEWISE_AUTOTUNE) + "' tune --device host --sizes 3000";
  const Result result = run_program("/usr/bin/unshare", {"-m", "/bin/sh", "-c", command});
  EXPECT_EQ(result.status, 7) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("needs"), HasSubstr("280.0 MiB are available")));
}

TEST_F(CliLimits, AnAffinityDoesNotChangeTheKeyOfTheCpu) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Result tuned = run(tuning("24"));
  sched_setaffinity(0, sizeof before, &before);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const Result answer = run({"query", "--device", "host", "--sizes", "24", "--json"});
  ASSERT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.json().at("answers")[0].at("match"), "exact");
  EXPECT_EQ(answer.json().at("answers")[0].at("gpu"), tuned.json().at("results")[0].at("gpu"));
}

TEST_F(CliLimits, ALimitOnFileSizesIsAnErrorWithItsStatus) {
  const Result tuned = run_after("ulimit -f 8", tuning("24"));
  EXPECT_EQ(tuned.status, 5) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("a limit on file sizes"));
  ASSERT_EQ(run(tuning("24")).status, 0);
  // The worker's shared memory is a file too.
  const Result large = run_after("ulimit -f 1000", tuning("400"));
  EXPECT_THAT(large.status, AnyOf(5, 7)) << large.err;
  EXPECT_THAT(large.err, HasSubstr("limit on file sizes"));
  const Result exported = run_after("ulimit -f 1", {"export", file("all.json").string()});
  EXPECT_EQ(exported.status, 2) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr("File too large"));
}

TEST_F(CliLimits, AWaitForALockIsSaidAndNoPartOfTheBudget) {
  { const tilewise::Database made = tilewise::Database::open(database()); }
  Result result;
  {
    const tilewise::Connection holder(database(), tilewise::Connection::Access::write);
    holder.execute("BEGIN IMMEDIATE");
    const pid_t program = start(tuning("24"), "/dev/null");
    for (int i = 0; i < 3000 && read(file("stderr")).find("waiting") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    holder.execute("COMMIT");
    result = finish(program);
  }
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GE(result.json().at("results")[0].at("lock_seconds"), 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("waiting for the database " + database().string()),
                                HasSubstr("the budgets do not count them")));
}

}  // namespace
}  // namespace cli_test::cli_limits_test
