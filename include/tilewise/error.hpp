#pragma once
#include <stdexcept>
#include <string>

namespace tilewise {

/// What kind of thing went wrong at a boundary. The command line maps each kind to an exit status.
enum class ErrorKind {
  invalid_argument,  ///< the caller asked for something that cannot be (bad size, bad layout,
                     ///< overlap)
  not_found,         ///< nothing stored answers the question
  unsupported,       ///< a correct request that this device or build cannot serve
  no_device,         ///< no driver, no GPU, or the index or UUID names none
  device,            ///< the driver refused or failed; the device may be unusable afterwards
  out_of_memory,     ///< host or device memory does not suffice; the message carries both numbers
  compiler,          ///< no run-time compiler, or the compiler refused a source
  database,          ///< the database cannot be opened, read or written
  io,                ///< a file cannot be read or written
  transient,         ///< a fault of the system around it (a killed compiler, a full temporary
                     ///< folder): the same request may succeed when it is repeated
};

/// "invalid_argument", "no_device", ...
const char* to_string(ErrorKind kind);

/// A failure at a boundary: what was tried, and the words of whoever refused (driver, SQLite, OS).
/// what() is one line fit for a person. Immutable, thread-safe to read.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace tilewise
