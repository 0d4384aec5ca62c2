#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

/// What this process may use of its machine, by the kernel's files in /proc and /sys. `root` stands
/// for "/" in tests. Thread-safe.
namespace tilewise {

/// Bytes of main memory.
struct UsableMemory {
  std::int64_t total =
      0;                  ///< the machine's, or the least limit of a control group where it is less
  std::int64_t free = 0;  ///< at most `total`
};

/// The memory that this process may still allocate: the least of MemAvailable and of what each
/// control group (version 1 or 2) that contains the process has left, its file cache counted as
/// free. Without MemAvailable the machine's whole memory counts as available.
UsableMemory usable_memory(const std::filesystem::path& root = "/");

/// The processors that the control groups' quotas amount to, rounded up; empty without a quota.
std::optional<int> quota_cores(const std::filesystem::path& root = "/");

/// The number of processors that this process may use at once: by its affinity and the quotas. The
/// quotas are read once.
int usable_cores();

/// The machine's processors that are online, whatever this process may use of them.
int machine_cores(const std::filesystem::path& root = "/");

}  // namespace tilewise
