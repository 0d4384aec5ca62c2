#pragma once
#include <filesystem>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {

/// A failure reported by SQLite; an Error(database) for callers.
class SqliteError : public Error {
 public:
  SqliteError(const std::string& message, int code, int system_error)
      : Error(ErrorKind::database, message), code_(code), system_error_(system_error) {}
  /// Whether no space was left for a write.
  bool full() const;
  /// Whether the file's contents are corrupt.
  bool damaged() const;
  /// Whether an index disagrees with its table.
  bool of_an_index() const;
  bool busy() const;

 private:
  int code_;          ///< extended result code
  int system_error_;  ///< errno; 0 when not known
};

/// Error(database) with the path, the remedy and SQLite's message.
SqliteError sqlite_error(const std::filesystem::path& path, int code, const std::string& words,
                         int system_error = 0);
/// Error(database) about an unusable file.
Error database_error(const std::filesystem::path& path, const std::string& why);

}  // namespace tilewise
