#pragma once
#include <cstdint>
#include <string>

namespace tilewise {

/// Names one object of one process among all that share a database, so that others can tell whether
/// the process still runs.
struct ProcessIdentity {
  std::string token;    ///< random: this object alone
  std::string machine;  ///< boot and process namespace in which `pid` means something
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks after the boot
};

/// A new one for this process.
ProcessIdentity new_identity();

/// Whether that process certainly runs no more: it ran here, and its pid is free, another's, or a
/// zombie's. False also when that cannot be told (another machine's or container's).
bool is_gone(const ProcessIdentity& other);

}  // namespace tilewise
