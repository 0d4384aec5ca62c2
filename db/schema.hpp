#pragma once
#include <cstdint>

#include "db/sqlite.hpp"
#include "vocabulary/fields.hpp"

namespace tilewise {

/// The application id in the file's header: the letters "Tile". Never change it.
inline constexpr std::int64_t kApplicationId = 0x54696c65;

/// The first version whose files are brought up to date; earlier ones are refused.
inline constexpr int kOldestSchema = 6;

std::int64_t version_of(const Connection& connection);

/// True for a new, empty file, false for one of ours. Throws Error(database) for another program's
/// database and for an unknown version.
bool is_new(const Connection& connection);

/// Creates the tables and columns that a new or older file lacks, in one transaction. Other
/// processes may do the same concurrently.
void bring_up_to_date(const Connection& connection);

}  // namespace tilewise
