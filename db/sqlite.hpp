#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/lock_waits.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace tilewise {

class Connection;

/// A prepared statement in use: bind() its parameters in order, step() through its rows, read()
/// their columns in order. The destructor resets it and returns it to its connection. Not
/// thread-safe.
class Query {
 public:
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  /// Takes integers, doubles (NaN becomes NULL), text, bytes, nullptr.
  template <class... T>
  Query& bind(const T&... values) {
    (put(values), ...);
    return *this;
  }
  /// True when there is a row to read.
  bool step();
  void run() {
    while (step()) {
    }
  }
  /// Reads the next columns of the row. As a double, NULL is NaN. Throws Error(invalid_argument)
  /// for a number out of range.
  template <class... T>
  Query& read(T&... out) {
    (get(out), ...);
    return *this;
  }
  template <class T>
  T next() {
    T value{};
    get(value);
    return value;
  }
  /// Whether the next column is NULL.
  bool null() const;
  void skip(int columns) { column_ += columns; }

 private:
  friend class Connection;
  Query(const Connection& connection, sqlite3_stmt* statement);

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_null_pointer_v<T>) {
      put_null();
    } else if constexpr (std::integral<T>) {
      put_integer(static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<T>) {
      put_real(value);
    } else if constexpr (std::convertible_to<T, std::string_view>) {
      put_text(value);
    } else {
      put_bytes(value);
    }
  }
  void put_null();
  void put_integer(std::int64_t value);
  void put_real(double value);
  void put_text(std::string_view value);
  void put_bytes(std::span<const std::uint8_t> value);

  template <std::integral T>
  void get(T& out) {
    const std::int64_t value = get_integer();
    if constexpr (std::same_as<T, bool>) {
      out = value != 0;
    } else {
      if (!std::in_range<T>(value)) does_not_fit(value);
      out = static_cast<T>(value);
    }
  }
  void get(double& out);
  void get(std::string& out);
  void get(std::vector<std::uint8_t>& out);
  std::int64_t get_integer();
  [[noreturn]] void does_not_fit(std::int64_t value) const;
  void check(int code) const;

  const Connection* connection_;
  sqlite3_stmt* statement_;
  int parameter_ = 0;
  int column_ = 0;
};

/// One SQLite connection with its prepared statements, which are reused. Every function throws
/// Error(database) with the path, the remedy and SQLite's message. Movable; not thread-safe.
class Connection {
 public:
  enum class Access {
    write,
    owner,     ///< changes no row; removes the companions when it closes
    read,      ///< creates no companion: in WAL mode they must exist
    immutable  ///< only the file, without its log
  };
  static constexpr int kBusyMilliseconds = 1000 * kMostLockWaitSeconds;

  /// Opens a file (`write` creates it when absent). Sets only the busy timeout.
  Connection(std::filesystem::path path, Access access);
  /// An in-memory database.
  Connection();

  /// Runs one or several statements without parameters; rows are dropped.
  void execute(const std::string& sql) const;
  /// A statement, prepared at its first use. Only one Query at a time may use a text.
  Query query(const std::string& sql) const;
  /// The first column of the first row.
  std::int64_t integer(const std::string& sql) const;
  std::string text(const std::string& sql) const;
  /// Reads the file and returns SQLITE_OK, or the primary code of the failure.
  int probe() const;

  std::int64_t changes() const;
  bool in_transaction() const;
  /// Whether it was opened for reading, or the file is not writable.
  bool read_only() const;
  /// Sets how long a statement waits for a lock of another process (LockWait).
  void set_busy_timeout(int milliseconds) const;
  const std::filesystem::path& path() const { return path_; }

  /// Throws the error of the last call on this connection.
  [[noreturn]] void fail() const;
  int last_code() const;  ///< primary code

 private:
  struct Close {
    void operator()(sqlite3* connection) const noexcept;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  void open(const std::string& uri, int flags);

  /// SQLite stores its address, which stays the same when the connection is moved.
  struct Busy;

  std::filesystem::path path_;
  bool changes_nothing_ = false;
  std::shared_ptr<Busy> busy_;
  std::unique_ptr<sqlite3, Close> connection_;
  mutable std::unordered_map<std::string, Statement> statements_;  // destroyed before connection_
};

/// A transaction that is rolled back unless committed. `write` takes the writer's lock at the
/// start; `read` sees one state of the database throughout.
class Transaction {
 public:
  enum class Kind { write, read };
  explicit Transaction(const Connection& connection, Kind kind = Kind::write);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Connection& connection_;
  bool open_ = true;
};

}  // namespace tilewise
