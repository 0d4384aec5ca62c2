#pragma once
#include <string>
#include <vector>

#include "db/sqlite.hpp"
#include "samples.hpp"

// Damage to a database file: rows changed by SQL, and bytes changed in its pages.
namespace tilewise::samples {

/// Changes a file like the sqlite3 shell: without hashes and foreign keys.
inline void change(const std::filesystem::path& path, const std::string& sql) {
  Connection(path, Connection::Access::write).execute(sql);
}

inline std::int64_t number_in(const std::filesystem::path& path, const std::string& sql) {
  return Connection(path, Connection::Access::owner).integer(sql);
}

/// The kind of a b-tree page, its first byte.
enum class Page : char { table = 0x0d, index = 0x0a };

/// Replaces every `from` with `to`, of equal length, in pages of one kind, so that a table and its
/// indexes disagree. The file must be closed. Returns the number of replacements.
inline int change_pages(const std::filesystem::path& path, Page kind, const std::string& from,
                        const std::string& to) {
  constexpr std::size_t kPage = 4096;
  std::string bytes = read_file(path);
  int changed = 0;
  for (std::size_t page = kPage; page < bytes.size(); page += kPage) {
    if (bytes[page] != static_cast<char>(kind)) continue;
    for (std::size_t at = page; (at = bytes.find(from, at)) < page + kPage; at += to.size()) {
      bytes.replace(at, from.size(), to);
      ++changed;
    }
  }
  write_file(path, bytes);
  return changed;
}

}  // namespace tilewise::samples
