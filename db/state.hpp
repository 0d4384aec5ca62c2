#pragma once
#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/database.hpp"
#include "db/open.hpp"
#include "db/process_identity.hpp"
#include "db/row_hash.hpp"
#include "db/sqlite_error.hpp"

namespace tilewise {

/// The identity of an open file: detects that its path refers to another file.
class Place {
 public:
  /// A database in memory: always valid.
  Place() = default;
  explicit Place(const std::filesystem::path& path);
  /// Throws Error(database) when the file was deleted or replaced.
  void require() const;

 private:
  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A scope in which a row without an index entry can be changed or deleted, which SQLite otherwise
/// refuses.
class IndexRepair {
 public:
  explicit IndexRepair(const Connection& connection);
  ~IndexRepair();
  IndexRepair(const IndexRepair&) = delete;
  IndexRepair& operator=(const IndexRepair&) = delete;

 private:
  const Connection& connection_;
};

/// The state of a Database. Every member function locks `mutex` while it uses the other members.
struct Database::State {
  State(OpenedFile file, Place where, Trust trusted)
      : connection(std::move(file.connection)),
        warnings(std::move(file.warnings)),
        place(std::move(where)),
        trust(trusted) {}

  void warn(std::string message) {
    if (std::find(warnings.begin(), warnings.end(), message) != warnings.end()) return;
    warnings.push_back(std::move(message));
    if (say) say(warnings.back());
  }

  /// Reads all rows of `query` with `read`. A damaged row or a row of a newer version is skipped
  /// with a warning and stays in the database.
  template <class Read>
  auto rows(Query& query, const std::string& what, Read read) {
    std::vector<decltype(read(query))> found;
    while (query.step()) {
      try {
        found.push_back(read(query));
      } catch (const DamagedRow& damage) {
        warn("database " + connection.path().string() + ": a " + what +
             " is damaged and is not used (" + damage.what() +
             "); `autotune db check` lists all damage, tuning again replaces it, and `autotune db "
             "prune` removes what tuning does not replace");
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::invalid_argument) throw;
        warn("database " + connection.path().string() + ": a " + what + " was skipped (" +
             error.what() + "); a newer version may have written it, and it stays there");
      }
    }
    return found;
  }

  const ProcessIdentity& holder() {
    if (!identity) identity = new_identity();
    return *identity;
  }

  /// Runs `body` in a transaction and commits. Runs it once more if the disk was full and
  /// make_room() freed space, or if an index disagreed with its table.
  template <class Body>
  void write(Body body) {
    const auto once = [&] {
      Transaction transaction(connection);
      place.require();
      body(connection);
      transaction.commit();
    };
    try {
      once();
    } catch (const SqliteError& error) {
      if (error.of_an_index()) {
        const IndexRepair repair(connection);
        Transaction transaction(connection);
        body(connection);
        connection.execute("REINDEX");
        return transaction.commit();
      }
      if (!error.full() || !make_room || !make_room()) throw;
      once();
    }
  }

  std::mutex mutex;
  Connection connection;
  std::vector<std::string> warnings;
  Place place;
  Trust trust;
  std::optional<ProcessIdentity> identity;  ///< the holder in our claims; made for the first claim
  std::function<bool()> make_room;
  std::function<void(const std::string&)> say;  ///< receives warnings
};

}  // namespace tilewise
