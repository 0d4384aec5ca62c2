#include "db/database.hpp"

#include <unistd.h>

#include <random>

#include "db/network_file_system.hpp"
#include "db/state.hpp"

namespace tilewise {
namespace {

/// Names this object among all that may claim images, on all machines that share the file.
std::string new_holder() {
  std::random_device random;
  return std::to_string(getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

}  // namespace

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Database Database::open(const std::filesystem::path& path, OpenMode mode) {
  const auto network = network_file_system_of(path);
  OpenedFile file = mode == OpenMode::read_write ? open_for_writing(path, network)
                                                 : open_for_reading(path, network);
  return Database(std::make_unique<State>(std::move(file), new_holder()));
}

Database Database::in_memory() {
  return Database(std::make_unique<State>(open_in_memory(), new_holder()));
}

const std::filesystem::path& Database::path() const { return state_->connection.path(); }

bool Database::read_only() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connection.read_only();
}

std::vector<std::string> Database::warnings() const {
  const std::lock_guard lock(state_->mutex);
  return state_->warnings;
}

}  // namespace tilewise
