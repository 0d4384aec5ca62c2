#pragma once
#include <cstdint>

#include "db/sqlite.hpp"
#include "vocabulary/fields.hpp"

namespace tilewise {

/// The application id in the file's header: the letters "Tile". Never change it.
inline constexpr std::int64_t kApplicationId = 0x54696c65;

/// The first version whose files are brought up to date; those of before are refused.
inline constexpr int kOldestSchema = 6;

std::int64_t version_of(const Connection& connection);

/// True for a new, empty file, false for one of ours. Throws Error(database) for another program's
/// database and for a version that is not known.
bool is_new(const Connection& connection);

/// Creates the tables and columns that a new or older file lacks, in one transaction. Safe with
/// other processes that do the same.
void bring_up_to_date(const Connection& connection);

}  // namespace tilewise
