#pragma once
#include <filesystem>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {

/// "database PATH: why".
Error database_error(const std::filesystem::path& path, const std::string& why);
/// The same for a result code of SQLite: what it means and what to do, with SQLite's own words.
Error sqlite_error(const std::filesystem::path& path, int code, const std::string& words);

}  // namespace tilewise
