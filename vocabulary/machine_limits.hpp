#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

/// Resources that this process may use, from the kernel's files in /proc and /sys. `root` replaces
/// "/" in tests. Thread-safe.
namespace tilewise {

/// Bytes of main memory.
struct UsableMemory {
  std::int64_t total = 0;  ///< the machine's, or the least limit of a control group if that is less
  std::int64_t free = 0;   ///< at most `total`
};

/// The memory that this process may still allocate: the least of MemAvailable and the rest in each
/// control group (version 1 or 2) that contains the process, whose file cache counts as free.
/// Without MemAvailable the machine's whole memory counts as available.
UsableMemory usable_memory(const std::filesystem::path& root = "/");

/// The processors that the control groups' quotas permit, rounded up; empty without a quota.
std::optional<int> quota_cores(const std::filesystem::path& root = "/");

/// The number of processors that this process may use at once, from its affinity and the quotas.
/// Reads the quotas once.
int usable_cores();

/// The machine's online processors, even if this process may not use all of them.
int machine_cores(const std::filesystem::path& root = "/");

}  // namespace tilewise
