#pragma once
#include <filesystem>

namespace tilewise {

/// Makes a closed database a file to ship: without a log and free pages, readable by everyone. A
/// reader then needs no companions and no writable folder. Throws Error(database).
void seal(const std::filesystem::path& path);

}  // namespace tilewise
