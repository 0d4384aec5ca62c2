// The resources of its machine that a process may use, on planted trees of /proc and /sys, and on
// this machine.
#include "vocabulary/machine_limits.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tilewise::machine_limits_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;

std::string bytes(std::int64_t mebibytes) { return std::to_string(mebibytes * kMiB) + "\n"; }

/// A tree that replaces "/", removed after the test.
class MachineLimits : public testing::Test {
 protected:
  MachineLimits() {
    std::string pattern = (fs::temp_directory_path() / "tilewise_root_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    put("proc/meminfo",
        "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    4194304 kB\n");
  }
  ~MachineLimits() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  /// Version 2, mounted as by systemd.
  void use_version_2(const std::string& group, const std::string& mounted = "/") const {
    put("proc/self/cgroup", "0::" + group + "\n");
    put("proc/self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:26 " +
            mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Version 1, with each controller mounted by itself or with another.
  void use_version_1(const std::string& group, const std::string& mounted = "/") const {
    put("proc/self/cgroup",
        "4:memory:" + group + "\n3:cpu,cpuacct:" + group + "\n1:name=systemd:/init\n0::/\n");
    put("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "35 31 0:32 " +
            mounted +
            " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "36 31 0:33 " +
            mounted + " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  }
  std::int64_t total() const { return usable_memory(root_).total / kMiB; }
  std::int64_t free() const { return usable_memory(root_).free / kMiB; }
  int cores() const { return quota_cores(root_).value_or(0); }

  fs::path root_;
};

TEST_F(MachineLimits, WithoutControlGroupsAreTheMachines) {
  EXPECT_EQ(total(), 8192);
  EXPECT_EQ(free(), 4096);
  EXPECT_EQ(cores(), 0);
}

TEST_F(MachineLimits, OfVersion2CountReclaimableFileCacheAsFree) {
  use_version_2("/");
  put("sys/fs/cgroup/memory.max", bytes(700));
  put("sys/fs/cgroup/memory.current", bytes(500));
  EXPECT_EQ(total(), 700);
  EXPECT_EQ(free(), 200);
  // "file" includes shared memory, which cannot be reclaimed.
  put("sys/fs/cgroup/memory.stat", "anon 5\nfile " + bytes(400) + "inactive_file " + bytes(90) +
                                       "active_file " + bytes(10) + "shmem " + bytes(300));
  EXPECT_EQ(free(), 300);
  put("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(free(), 4096) << "no limit";
  put("sys/fs/cgroup/memory.high", bytes(600));
  EXPECT_EQ(free(), 200) << "above memory.high everything is reclaimed and throttled";
}

TEST_F(MachineLimits, OfVersion2AreTheLeastOfNestedGroups) {
  use_version_2("/user.slice/job/step");
  const std::string user = "sys/fs/cgroup/user.slice/";
  put(user + "memory.max", bytes(1000));
  put(user + "memory.current", bytes(900));
  put(user + "job/memory.max", bytes(800));
  put(user + "job/memory.current", bytes(300));
  put(user + "job/step/memory.max", "max\n");
  put(user + "job/step/memory.current", bytes(50));
  EXPECT_EQ(total(), 800);
  EXPECT_EQ(free(), 100) << "others of user.slice use the rest";
  put(user + "cpu.max", "350000 100000\n");
  put(user + "job/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), 4) << "3.5 rounded up";
  put(user + "job/step/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 1);
}

TEST_F(MachineLimits, OfVersion1AreTheLeastOfNestedGroups) {
  use_version_1("/docker/x");
  const std::string memory = "sys/fs/cgroup/memory/docker/";
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", bytes(3000));
  EXPECT_EQ(total(), 8192) << "the largest number is no limit";
  EXPECT_EQ(free(), 4096);
  put(memory + "memory.limit_in_bytes", bytes(900));
  put(memory + "memory.usage_in_bytes", bytes(400));
  put(memory + "x/memory.limit_in_bytes", bytes(700));
  put(memory + "x/memory.usage_in_bytes", bytes(400));
  put(memory + "x/memory.stat", "cache 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file " +
                                    bytes(60) + "total_active_file " + bytes(40));
  EXPECT_EQ(total(), 700);
  EXPECT_EQ(free(), 400) << "the sums over the groups below count";
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/docker/x/";
  put(cpu + "cpu.cfs_quota_us", "-1\n");
  put(cpu + "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 0);
  put(cpu + "cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(cores(), 2);
}

// In a container the mount's root is its group's folder, but the group's path is complete.
TEST_F(MachineLimits, OfAContainerAreThoseOfTheMountsRoot) {
  use_version_1("/docker/x/inner", "/docker/x");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", bytes(500));
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", bytes(100));
  put("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", bytes(300));
  EXPECT_EQ(total(), 300);
  use_version_2("/../../elsewhere", "/");
  put("sys/fs/cgroup/memory.max", bytes(200));
  EXPECT_EQ(total(), 200) << "a group outside of what is mounted";
}

TEST_F(MachineLimits, WithoutMountinfoAreThoseOfTheUsualPlaces) {
  put("sys/fs/cgroup/memory.max", bytes(256));
  put("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(total(), 256);
  EXPECT_EQ(cores(), 1);
}

TEST_F(MachineLimits, AreNeverNegative) {
  use_version_2("/");
  put("sys/fs/cgroup/memory.max", bytes(100));
  put("sys/fs/cgroup/memory.current", bytes(120));
  EXPECT_EQ(free(), 0);
  put("sys/fs/cgroup/memory.current", bytes(10));
  put("sys/fs/cgroup/memory.stat", "inactive_file " + bytes(50));
  EXPECT_EQ(free(), 100) << "a cache that shrank between two reads";
}

TEST_F(MachineLimits, WithoutProcAreTheWholeMemory) {
  fs::remove_all(root_ / "proc");
  EXPECT_GT(total(), 0);
  EXPECT_EQ(free(), total());
  put("sys/fs/cgroup/memory.max", bytes(1));
  EXPECT_EQ(free(), 1);
}

TEST_F(MachineLimits, AMachinesCoresAreThoseOnline) {
  put("sys/devices/system/cpu/online", "0-3,8,10-11\n");
  EXPECT_EQ(machine_cores(root_), 7);
  put("sys/devices/system/cpu/online", "0\n");
  EXPECT_EQ(machine_cores(root_), 1);
  fs::remove_all(root_ / "sys");
  EXPECT_GE(machine_cores(root_), 1);
}

TEST(MachineLimitsHere, AnAffinityChangesTheUsableCoresAlone) {
  const int machine = machine_cores();
  EXPECT_GE(machine, usable_cores());
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_EQ(machine_cores(), machine);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_GT(usable_memory().free, 0);
  EXPECT_LE(usable_memory().free, usable_memory().total);
}

}  // namespace
}  // namespace tilewise::machine_limits_test
