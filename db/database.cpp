#include "db/database.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "db/network_file_system.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {

Trust default_trust() {
  const char* value = std::getenv("TILEWISE_TRUST_FILES");
  const bool set = value && *value != '\0' && std::strcmp(value, "0") != 0;
  return set ? Trust::anyone : Trust::owner;
}

// Absolute, since the program may change its working folder.
Place::Place(const std::filesystem::path& path) : path_(absolute_path(path)) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void Place::require() const {
  if (path_.empty()) return;
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return;  // a write reports the error better
    throw database_error(path_, "the file was deleted while it was open: nothing can be stored");
  }
  // On network file systems the inode of a file may change.
  if (inode_ != 0 && (status.st_dev != device_ || status.st_ino != inode_) &&
      network_file_system_of(path_).empty())
    throw database_error(path_,
                         "another file took its place while it was open: nothing can be stored");
}

IndexRepair::IndexRepair(const Connection& connection) : connection_(connection) {
  connection_.execute("PRAGMA writable_schema = ON");
}

IndexRepair::~IndexRepair() {
  try {
    connection_.execute("PRAGMA writable_schema = OFF");
  } catch (const Error&) {  // harmless: affects no table of ours
  }
}

Database::Database(std::shared_ptr<State> state) : state_(std::move(state)) {}

Database Database::open(const std::filesystem::path& path, OpenMode mode, Trust trust) {
  const auto network = network_file_system_of(path);
  const bool write = mode == OpenMode::read_write;
  OpenedFile file =
      write ? open_for_writing(path, network, trust) : open_for_reading(path, network, trust);
  Database database(std::make_shared<State>(std::move(file), Place(path), trust));
  if (write) database.drop_dead_claims();
  return database;
}

std::optional<Database> Database::open_if_any(const std::filesystem::path& path, Trust trust) {
  auto file = open_for_reading_if_any(path, network_file_system_of(path), trust);
  if (!file) return std::nullopt;
  return Database(std::make_shared<State>(std::move(*file), Place(path), trust));
}

Database Database::in_memory() {
  return Database(std::make_shared<State>(open_in_memory(), Place(), Trust::owner));
}

/// Drops claims of ended processes. A database without room for the change remains readable.
void Database::drop_dead_claims() {
  if (state_->connection.integer("SELECT count(*) FROM claims") == 0) return;
  try {
    state_->write([](const Connection& db) { tilewise::drop_dead_claims(db); });
  } catch (const SqliteError& error) {
    if (!error.full() && !error.busy()) throw;
  }
}

const std::filesystem::path& Database::path() const { return state_->connection.path(); }

bool Database::read_only() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connection.read_only();
}

Trust Database::trust() const { return state_->trust; }

bool Database::still_there() const {
  try {
    state_->place.require();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Database::on_warning(std::function<void(const std::string&)> say) {
  const std::lock_guard lock(state_->mutex);
  state_->say = std::move(say);
  for (const std::string& warning : state_->warnings) state_->say(warning);
}

std::vector<std::string> Database::warnings() const {
  const std::lock_guard lock(state_->mutex);
  return state_->warnings;
}

void Database::warn(const std::string& warning) const {
  const std::lock_guard lock(state_->mutex);
  state_->warn(warning);
}

void Database::on_full_disk(std::function<bool()> make_room) {
  const std::lock_guard lock(state_->mutex);
  state_->make_room = std::move(make_room);
}

}  // namespace tilewise
