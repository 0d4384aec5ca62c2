#pragma once
#include <cstdint>
#include <span>

#include "db/sqlite.hpp"

namespace tilewise {

/// The application id in the file's header: the letters "Tile". Never change it.
inline constexpr std::int64_t kApplicationId = 0x54696c65;

/// One step of the schema: `sql`, then `finish` if any, migrates a file of version - 1 to
/// `version`.
struct Migration {
  int version;
  const char* sql;
  void (*finish)(const Connection& connection) = nullptr;
};

/// Versions 1, 2, ... in order. Append only: files of every version exist.
std::span<const Migration> migrations();
inline int latest_version(std::span<const Migration> steps = migrations()) {
  return steps.empty() ? 0 : steps.back().version;
}

std::int64_t version_of(const Connection& connection);

/// True for a new, empty file, false for one of ours. Throws Error(database) for another program's
/// database and for a newer version.
bool is_new(const Connection& connection, std::span<const Migration> steps = migrations());

/// Migrates a new or older file to the latest version, one transaction per step. Safe with
/// concurrent migrations by other processes.
void migrate(const Connection& connection, std::span<const Migration> steps = migrations());

}  // namespace tilewise
