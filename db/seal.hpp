#pragma once
#include <filesystem>

namespace tilewise {

/// Prepares a closed database for shipping: no log, no free pages, readable by everyone. A reader
/// then needs no companions and no writable folder. Throws Error(database).
void seal(const std::filesystem::path& path);

}  // namespace tilewise
