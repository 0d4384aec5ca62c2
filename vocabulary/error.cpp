#include "tilewise/error.hpp"

namespace tilewise {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::no_device:
      return "no_device";
    case ErrorKind::device:
      return "device";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::compiler:
      return "compiler";
    case ErrorKind::database:
      return "database";
    case ErrorKind::io:
      return "io";
    case ErrorKind::transient:
      return "transient";
  }
  return "unknown";
}

}  // namespace tilewise
