#pragma once
#include <cstdint>
#include <string>

namespace tilewise {

/// Identifies one object of one process among all users of a database, so that other processes can
/// test whether it still runs.
struct ProcessIdentity {
  std::string token;    ///< random, unique to the object
  std::string machine;  ///< boot and process namespace of `pid`
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks after boot
};

/// A new identity in this process.
ProcessIdentity new_identity();

/// Whether that process has certainly ended: it ran on this machine, and its pid is free, reused,
/// or a zombie's. False when unknown (another machine or container).
bool is_gone(const ProcessIdentity& other);

}  // namespace tilewise
