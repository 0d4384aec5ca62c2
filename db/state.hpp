#pragma once
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "db/database.hpp"
#include "db/open.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// What a Database is made of. Every member function holds `mutex` while it uses the rest.
struct Database::State {
  State(OpenedFile file, std::string token)
      : connection(std::move(file.connection)),
        warnings(std::move(file.warnings)),
        holder(std::move(token)) {}

  void warn(std::string message) {
    if (std::find(warnings.begin(), warnings.end(), message) == warnings.end()) {
      warnings.push_back(std::move(message));
    }
  }

  /// Reads all rows of `query` by `read`. A row that this version does not understand is skipped,
  /// with a warning: it stays in the database.
  template <class Read>
  auto rows(Query& query, const std::string& what, Read read) {
    std::vector<decltype(read(query))> found;
    while (query.step()) {
      try {
        found.push_back(read(query));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument) throw;
        warn("database " + connection.path().string() + ": a " + what + " was skipped (" +
             error.what() + "); a newer version may have written it, and it stays there");
      }
    }
    return found;
  }

  std::mutex mutex;
  Connection connection;
  std::vector<std::string> warnings;
  std::string holder;  ///< whose claims are ours
};

}  // namespace tilewise
