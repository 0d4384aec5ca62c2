#include "db/sqlite.hpp"

#include <pthread.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>

#include "db/database.hpp"
#include "db/lock_waits.hpp"
#include "db/packs.hpp"
#include "db/sqlite_error.hpp"

namespace tilewise {
namespace {

/// SQLite's file URI; all special characters are escaped, so that any path works.
std::string file_uri(const std::filesystem::path& path) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char letter : absolute_path(path).string()) {
    if (plain.find(letter) != std::string_view::npos) {
      uri += letter;
    } else {
      const auto byte = static_cast<unsigned char>(letter);
      uri += {'%', hex[byte >> 4], hex[byte & 15]};
    }
  }
  return uri;
}

/// SQLite's process-wide locks. A child of fork() inherits their state: a lock of another parent
/// thread would never be released in the child.
constexpr int kGlobalLocks[] = {
    SQLITE_MUTEX_STATIC_MASTER, SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_VFS1,
    SQLITE_MUTEX_STATIC_VFS2,   SQLITE_MUTEX_STATIC_VFS3, SQLITE_MUTEX_STATIC_PRNG,
    SQLITE_MUTEX_STATIC_LRU,    SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM};

std::mutex initialising;  // held while SQLite initialises itself, and during fork()

bool locked = false;  // whether this copy of the library has the locks; guarded by `initialising`

/// Takes all locks or none, until it succeeds: SQLite takes some of them in another order, so
/// waiting for one while holding others could deadlock. Where none is free, another copy of this
/// library in the process (the drop-in, a Python module) has taken them for the same fork(): no
/// other code takes all, and another fork() waits for the first copy's `initialising`.
void lock_before_fork() {
  initialising.lock();
  for (;; std::this_thread::yield()) {
    std::array<bool, std::size(kGlobalLocks)> taken{};
    for (std::size_t i = 0; i < taken.size(); ++i)
      taken[i] = sqlite3_mutex_try(sqlite3_mutex_alloc(kGlobalLocks[i])) == SQLITE_OK;
    const auto count = std::count(taken.begin(), taken.end(), true);
    locked = count == std::ssize(taken);
    if (locked || count == 0) return;
    for (std::size_t i = 0; i < taken.size(); ++i)
      if (taken[i]) sqlite3_mutex_leave(sqlite3_mutex_alloc(kGlobalLocks[i]));
  }
}

void unlock_after_fork() {
  if (locked)
    for (const int lock : kGlobalLocks) sqlite3_mutex_leave(sqlite3_mutex_alloc(lock));
  initialising.unlock();
}

// Registered at load time, so that a fork() concurrent with the first use of SQLite is handled,
// too.
[[maybe_unused]] const int registered =
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);

void initialise() {
  const std::lock_guard lock(initialising);
  sqlite3_initialize();
}

}  // namespace

// Query -------------------------------------------------------------------------------------------

Query::Query(const Connection& connection, sqlite3_stmt* statement)
    : connection_(&connection), statement_(statement) {}

Query::~Query() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::check(int code) const {
  if (code != SQLITE_OK) connection_->fail();
}

bool Query::step() {
  column_ = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_->fail();
  return false;
}

bool Query::null() const { return sqlite3_column_type(statement_, column_) == SQLITE_NULL; }

void Query::put_null() { check(sqlite3_bind_null(statement_, ++parameter_)); }

void Query::put_integer(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++parameter_, value));
}

void Query::put_real(double value) { check(sqlite3_bind_double(statement_, ++parameter_, value)); }

void Query::put_text(std::string_view value) {
  // An empty view may have a null address, which SQLite would store as NULL.
  check(sqlite3_bind_text64(statement_, ++parameter_, value.data() ? value.data() : "",
                            value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::put_bytes(std::span<const std::uint8_t> value) {
  ++parameter_;
  check(value.empty() ? sqlite3_bind_zeroblob(statement_, parameter_, 0)
                      : sqlite3_bind_blob64(statement_, parameter_, value.data(), value.size(),
                                            SQLITE_TRANSIENT));
}

std::int64_t Query::get_integer() { return sqlite3_column_int64(statement_, column_++); }

void Query::get(double& out) {
  out = null() ? std::numeric_limits<double>::quiet_NaN()
               : sqlite3_column_double(statement_, column_);
  ++column_;
}

void Query::get(std::string& out) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column_));
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column_));
  out.assign(text ? text : "", text ? bytes : 0);
  ++column_;
}

void Query::get(std::vector<std::uint8_t>& out) {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column_));
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column_));
  out.assign(data, data + (data ? bytes : 0));
  ++column_;
}

void Query::does_not_fit(std::int64_t value) const {
  throw Error(ErrorKind::invalid_argument,
              std::string("the value ") + std::to_string(value) + " of column " +
                  sqlite3_column_name(statement_, column_ - 1) + " is out of range");
}

// Connection --------------------------------------------------------------------------------------

struct Connection::Busy {
  std::filesystem::path path;
  std::chrono::milliseconds limit;
  LockWait wait = {};

  /// SQLite's busy handler. `tries`: the waiting statement's earlier tries.
  static int handle(void* busy, int tries) {
    auto& self = *static_cast<Busy*>(busy);
    if (tries == 0) self.wait.begin();
    return self.wait.sleep(self.path, self.limit) ? 1 : 0;
  }
};

void Connection::Close::operator()(sqlite3* connection) const noexcept {
  // Statements may keep the connection for longer than its Busy lives.
  sqlite3_busy_handler(connection, nullptr, nullptr);
  sqlite3_close_v2(connection);
}

void Connection::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

Connection::Connection(std::filesystem::path path, Access access) : path_(std::move(path)) {
  const char* parameters = access == Access::immutable ? "?immutable=1"
                           : access == Access::read    ? "?readonly_shm=1"
                                                       : "";
  const int flags = access == Access::write   ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                    : access == Access::owner ? SQLITE_OPEN_READWRITE
                                              : SQLITE_OPEN_READONLY;
  open(file_uri(path_) + parameters, flags);
  changes_nothing_ = access == Access::owner;
  if (changes_nothing_) execute("PRAGMA query_only = ON");
}

Connection::Connection() : path_(":memory:") {
  open("file::memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

void Connection::open(const std::string& uri, int flags) {
  initialise();
  // Callers serialise their calls, so SQLite needs no mutex.
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(uri.c_str(), &raw, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(raw);
  if (!raw) throw sqlite_error(path_, code, sqlite3_errstr(code));
  if (code != SQLITE_OK) fail();
  sqlite3_extended_result_codes(raw, 1);
  busy_ = std::make_shared<Busy>(Busy{path_, std::chrono::milliseconds(kBusyMilliseconds)});
  sqlite3_busy_handler(raw, &Busy::handle, busy_.get());
  if (define_unpacked(raw) != SQLITE_OK) fail();
}

void Connection::execute(const std::string& sql) const {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

Query Connection::query(const std::string& sql) const {
  Statement& statement = statements_[sql];
  if (!statement) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v3(connection_.get(), sql.c_str(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK) {
      fail();
    }
    statement.reset(raw);
  }
  return {*this, statement.get()};
}

std::int64_t Connection::integer(const std::string& sql) const {
  Query found = query(sql);
  return found.step() ? found.next<std::int64_t>() : 0;
}

std::string Connection::text(const std::string& sql) const {
  Query found = query(sql);
  return found.step() ? found.next<std::string>() : "";
}

int Connection::probe() const {
  return sqlite3_exec(connection_.get(), "SELECT count(*) FROM sqlite_schema", nullptr, nullptr,
                      nullptr) &
         0xff;
}

std::int64_t Connection::changes() const { return sqlite3_changes64(connection_.get()); }

bool Connection::in_transaction() const { return sqlite3_get_autocommit(connection_.get()) == 0; }

bool Connection::read_only() const {
  return changes_nothing_ || sqlite3_db_readonly(connection_.get(), "main") == 1;
}

void Connection::set_busy_timeout(int milliseconds) const {
  busy_->limit = std::chrono::milliseconds(milliseconds);
}

int Connection::last_code() const { return sqlite3_extended_errcode(connection_.get()) & 0xff; }

void Connection::fail() const {
  sqlite3* db = connection_.get();
  std::string words = sqlite3_errmsg(db);
  const int code = last_code();
  const int number = sqlite3_system_errno(db);
  if (number != 0 && (code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL)) {
    words += std::string(", ") + std::strerror(number);
  }
  throw sqlite_error(path_, sqlite3_extended_errcode(db), words, number);
}

// Transaction -------------------------------------------------------------------------------------

Transaction::Transaction(const Connection& connection, Kind kind) : connection_(connection) {
  // SQLite would refuse only the statements after the BEGIN.
  if (kind == Kind::write && connection.read_only()) {
    throw sqlite_error(connection.path(), SQLITE_READONLY, sqlite3_errstr(SQLITE_READONLY));
  }
  connection.query(kind == Kind::write ? "BEGIN IMMEDIATE" : "BEGIN").run();
}

Transaction::~Transaction() {
  // A full disk may have ended the transaction.
  if (!open_ || !connection_.in_transaction()) return;
  try {
    connection_.execute("ROLLBACK");
  } catch (const Error&) {
    // Nothing was committed; the original failure is the one to report.
  }
}

void Transaction::commit() {
  connection_.query("COMMIT").run();
  open_ = false;
}

}  // namespace tilewise
