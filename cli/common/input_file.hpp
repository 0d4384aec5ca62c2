#pragma once
#include <string>

namespace tilewise::cli {

/// The contents of a file; "-" is standard input. Throws Error(io) for folders and devices, for
/// more than 1 GiB, and where reading fails.
std::string contents_of(const std::string& file);

}  // namespace tilewise::cli
