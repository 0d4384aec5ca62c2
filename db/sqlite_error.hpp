#pragma once
#include <filesystem>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {

/// A failure that SQLite reported. Callers see an Error(database).
class SqliteError : public Error {
 public:
  SqliteError(const std::string& message, int code, int system_error)
      : Error(ErrorKind::database, message), code_(code), system_error_(system_error) {}
  /// No space was left for what was to be written.
  bool full() const;
  /// The file's contents are not what Tilewise wrote.
  bool damaged() const;
  /// An index disagrees with its table.
  bool of_an_index() const;
  bool busy() const;

 private:
  int code_;          ///< extended result code
  int system_error_;  ///< errno; 0 when SQLite gave none
};

/// Error(database) with the path, what a person can do about it, and SQLite's own words.
SqliteError sqlite_error(const std::filesystem::path& path, int code, const std::string& words,
                         int system_error = 0);
/// Error(database) about a file that is not what it should be.
Error database_error(const std::filesystem::path& path, const std::string& why);

}  // namespace tilewise
