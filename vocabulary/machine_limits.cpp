#include "vocabulary/machine_limits.hpp"

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tilewise {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// The number in a file; empty for "max", "-1" and other texts.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value) || value < 0) return std::nullopt;
  return value;
}

/// The number after `name` in a file of lines "name value" or "name: value".
std::optional<std::int64_t> number_in(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t value = 0;
    if (!(words >> key >> value)) continue;
    if (key.ends_with(':')) key.pop_back();
    if (key == name) return value;
  }
  return std::nullopt;
}

bool is_listed(const std::string& list, std::string_view name) {
  std::istringstream names(list);
  for (std::string one; std::getline(names, one, ',');)
    if (one == name) return true;
  return false;
}

/// A mounted hierarchy of control groups.
struct Hierarchy {
  std::string controllers;  ///< "cpu,cpuacct" of version 1; empty: version 2
  fs::path group;           ///< the group at the mount's root
  fs::path folder;          ///< mount point
};

/// A path in mountinfo, where blanks are written as \040.
fs::path path_of(const std::string& text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 4], code, 8).ec == std::errc()) {
      path += static_cast<char>(code);
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

/// The hierarchies in the usual places, which the mount list may lack, and the mounted ones.
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found{{"", "/", "/sys/fs/cgroup"},
                               {"memory", "/", "/sys/fs/cgroup/memory"},
                               {"cpu", "/", "/sys/fs/cgroup/cpu"}};
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream mount(line), type(line.substr(dash + 3));
    std::string skipped, group, folder, kind, options;
    mount >> skipped >> skipped >> skipped >> group >> folder;
    type >> kind >> skipped >> options;
    if (kind == "cgroup2") options.clear();
    if (kind == "cgroup" || kind == "cgroup2")
      found.push_back({options, path_of(group), path_of(folder)});
  }
  return found;
}

/// Adds the folders of a group and of its parents, up to the mount's root. If the group is outside
/// the mount, adds only the mount's root.
void add_groups(std::vector<fs::path>& folders, const fs::path& root, const Hierarchy& hierarchy,
                const fs::path& group) {
  const fs::path top = root / hierarchy.folder.relative_path();
  const fs::path below = group.lexically_relative(hierarchy.group);
  const bool inside = !below.empty() && *below.begin() != "..";
  if (inside && below != ".")
    for (fs::path at = below; !at.empty(); at = at.parent_path()) folders.push_back(top / at);
  folders.push_back(top);
}

/// The folders of all control groups that contain this process and may limit memory or processors.
std::vector<fs::path> control_groups(const fs::path& root) {
  const std::vector<Hierarchy> mounted = hierarchies(root);
  std::vector<fs::path> folders;
  std::ifstream file(root / "proc/self/cgroup");
  bool listed = false;
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:GROUP
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    listed = true;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    for (const Hierarchy& one : mounted)
      for (const std::string_view name : {"memory", "cpu"})
        if (controllers.empty() ? one.controllers.empty() && name == "memory"
                                : is_listed(controllers, name) && is_listed(one.controllers, name))
          add_groups(folders, root, one, group);
  }
  if (!listed)
    for (const Hierarchy& one : mounted) add_groups(folders, root, one, one.group);
  return folders;
}

const std::vector<fs::path>& own_control_groups() {
  static const std::vector<fs::path> groups = control_groups("/");
  return groups;
}

/// The least memory limit of a group, from the files of both versions.
std::int64_t memory_limit(const fs::path& group) {
  std::int64_t least = kNone;
  for (const char* name : {"memory.max", "memory.high", "memory.limit_in_bytes"})
    if (const auto limit = number_in(group / name)) least = std::min(least, *limit);
  return least;
}

/// The rest of a group's memory limit.
std::int64_t memory_left(const fs::path& group, std::int64_t limit) {
  const bool first = fs::exists(group / "memory.limit_in_bytes");
  const std::int64_t used =
      number_in(group / (first ? "memory.usage_in_bytes" : "memory.current")).value_or(0);
  // In version 1, sums that include child groups have a prefix.
  std::int64_t cache = 0;
  for (const char* name : {"inactive_file", "active_file"}) {
    const auto sum = number_in(group / "memory.stat", std::string("total_") + name);
    cache += (sum ? sum : number_in(group / "memory.stat", name)).value_or(0);
  }
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used - cache));
}

UsableMemory machine_memory(const fs::path& root) {
  const auto bytes = [&](const char* name) {
    const auto kib = number_in(root / "proc/meminfo", name);
    return kib ? *kib * 1024 : 0;
  };
  UsableMemory memory{bytes("MemTotal"), bytes("MemAvailable")};
  struct sysinfo facts {};
  if (memory.total <= 0 && sysinfo(&facts) == 0)
    memory.total = static_cast<std::int64_t>(facts.totalram) * facts.mem_unit;
  if (memory.free <= 0) memory.free = memory.total;
  return memory;
}

/// The quota over the period of a group, as processors, rounded up.
std::optional<int> cores_of(const fs::path& group) {
  std::int64_t quota = 0, period = 0;
  std::ifstream both(group / "cpu.max");  // "max 100000" without a quota
  if (!(both >> quota >> period)) {
    quota = number_in(group / "cpu.cfs_quota_us").value_or(0);
    period = number_in(group / "cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::min<std::int64_t>((quota - 1) / period + 1, 1 << 20));
}

std::optional<int> least_cores(const std::vector<fs::path>& groups) {
  std::optional<int> least;
  for (const fs::path& group : groups)
    if (const auto cores = cores_of(group)) least = std::min(least.value_or(*cores), *cores);
  return least;
}

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

UsableMemory usable_memory(const fs::path& root) {
  UsableMemory memory = machine_memory(root);
  for (const fs::path& group : root == "/" ? own_control_groups() : control_groups(root)) {
    const std::int64_t limit = memory_limit(group);
    if (limit == kNone) continue;
    memory.total = std::min(memory.total, limit);
    memory.free = std::min(memory.free, memory_left(group, limit));
  }
  return memory;
}

std::optional<int> quota_cores(const fs::path& root) {
  return least_cores(root == "/" ? own_control_groups() : control_groups(root));
}

int usable_cores() {
  static const std::optional<int> quota = quota_cores();
  const int cores = cores_by_affinity();
  return quota ? std::min(cores, *quota) : cores;
}

int machine_cores(const fs::path& root) {
  std::ifstream file(root / "sys/devices/system/cpu/online");
  int count = 0;
  for (std::string range; std::getline(file, range, ',');) {  // "0-3,8"
    int first = 0, last = 0;
    std::istringstream text(range);
    if (!(text >> first)) continue;
    char dash = 0;
    if (!(text >> dash >> last)) last = first;
    count += std::max(0, last - first + 1);
  }
  if (count > 0) return count;
  return std::max(cores_by_affinity(), static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)));
}

}  // namespace tilewise
