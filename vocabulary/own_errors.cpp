#include "vocabulary/own_errors.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

std::string megabytes(double bytes) {
  return std::to_string(static_cast<long>(bytes / 1e6)) + " MB";
}

/// Bytes of address space, from the first number (pages) of /proc/self/statm; 0 if not known.
double address_space_bytes() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string memory_in_words() {
  std::string text = "this process has " + megabytes(address_space_bytes()) + " of address space";
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += ", and its limit is " + megabytes(static_cast<double>(limit.rlim_cur)) + " (ulimit -v)";
  return text;
}

}  // namespace

void rethrow_as_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory,
                "the host's memory does not suffice for an allocation: " + memory_in_words());
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorKind::io, error.what());
  } catch (const std::system_error& error) {
    const bool memory = error.code() == std::errc::not_enough_memory;
    throw Error(memory ? ErrorKind::out_of_memory : ErrorKind::transient,
                "the system refused a thread or another resource: " + error.code().message() +
                    "; " + memory_in_words());
  }
}

}  // namespace tilewise
