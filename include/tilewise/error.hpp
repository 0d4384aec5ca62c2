#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <stdexcept>
#include <string>

#include "tilewise/export.h"

namespace tilewise {

/// The kind of a failure. The command line maps each kind to an exit status.
enum class ErrorKind {
  invalid_argument,  ///< a bad size, layout, type or pointer; C overlaps A or B
  not_found,         ///< no record is stored for the lookup
  unsupported,       ///< a correct request that this device or build cannot serve
  no_device,         ///< no driver, no GPU, or no device with this index or UUID
  device,            ///< the driver refused or failed; the device may be unusable afterwards
  out_of_memory,     ///< too little host or device memory; the message has both numbers
  compiler,          ///< no run-time compiler, or the compiler refused a source
  database,          ///< the database cannot be opened, read or written
  io,                ///< a file cannot be read or written
  transient,         ///< a fault of the system (a killed compiler, a full temporary folder): the
                     ///< same request may succeed when repeated
};

/// "invalid_argument", "no_device", ...
TILEWISE_API const char* to_string(ErrorKind kind);

/// A failure. what() is one line for people: the attempt, the wrong value, the allowed range, and
/// the message of the driver, SQLite or the operating system. Immutable; thread-safe to read.
class TILEWISE_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace tilewise
