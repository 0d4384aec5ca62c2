#include <pwd.h>
#include <unistd.h>

#include "db/database.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;

/// The user's home directory: HOME, otherwise from the system's user table; empty without either.
fs::path home() {
  if (const std::string home = environment_variable("HOME"); !home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user && user->pw_dir ? user->pw_dir : "";
}

/// A base directory of the XDG specification, which ignores relative values.
fs::path base_directory(const char* variable, const char* below_home) {
  const fs::path base = environment_variable(variable);
  if (base.is_absolute()) return base;
  const fs::path at_home = home();
  return at_home.is_absolute() ? at_home / below_home : fs::path();
}

fs::path standard_path() {
  const fs::path base = base_directory("XDG_DATA_HOME", ".local/share");
  return base.empty() ? base : base / "tilewise" / "tilewise.db";
}

}  // namespace

fs::path default_database_path(const std::string& option) {
  if (!option.empty()) return option;
  if (const std::string path = environment_variable("TILEWISE_DB"); !path.empty()) return path;
  const fs::path path = standard_path();
  if (path.empty()) {
    throw Error(ErrorKind::database,
                "there is no home directory to keep the database in; name a file with --db or "
                "TILEWISE_DB, or set HOME");
  }
  return path;
}

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (!error) return whole;
  throw Error(ErrorKind::database,
              "the file " + path.string() +
                  " has a relative path, and the working folder cannot be had (" + error.message() +
                  "): change to a folder that is there, or give a path from /");
}

fs::path image_cache_path(const fs::path& database) {
  if (absolute_path(database).lexically_normal() == standard_path().lexically_normal()) {
    const fs::path base = base_directory("XDG_CACHE_HOME", ".cache");
    if (!base.empty()) return base / "tilewise" / "images.db";
  }
  return database.string() + ".cache";
}

}  // namespace tilewise
