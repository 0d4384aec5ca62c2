#pragma once
#include <cstdint>
#include <span>

#include "db/sqlite.hpp"

namespace tilewise {

/// In the file's header: whose it is. The letters "Tile". Never change it.
inline constexpr std::int64_t kApplicationId = 0x54696c65;

/// One step of the schema. `sql` brings a file of version - 1 to `version`; then `finish`, where
/// there is one, does what SQL cannot.
struct Migration {
  int version;
  const char* sql;
  void (*finish)(const Connection& connection) = nullptr;
};

/// Versions 1, 2, ... in order. Append only: files of every version are out there.
std::span<const Migration> migrations();
inline int latest_version(std::span<const Migration> steps = migrations()) {
  return steps.empty() ? 0 : steps.back().version;
}

std::int64_t version_of(const Connection& connection);

/// Whether the file is new and empty (then it is to be made), as opposed to one of ours. Throws
/// Error(database) for another program's database and for a newer version.
bool is_new(const Connection& connection, std::span<const Migration> steps = migrations());

/// Brings a new or older file to the latest version, each step in a transaction of its own. Safe
/// beside other processes that do the same.
void migrate(const Connection& connection, std::span<const Migration> steps = migrations());

}  // namespace tilewise
