#pragma once
#include <string>

#include "db/database.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// Hash of the space of a search: template names, revisions, parameters and their values (as
/// narrowed), constraints.
std::string space_hash(const SearchSpace& space, const Subspace& subspace);
/// Hash of all kernel sources and the compiler's identity.
std::string sources_hash(const std::string& compiler);

/// Whether `stored` did at least the work of `wanted`: same objective, strategy, seed and space,
/// and at least its budget and evaluations. The sources may differ.
bool covers(const Search& stored, const Search& wanted);

/// The row for this search: an identical unfinished one of an earlier run, otherwise a new one.
Search begin_search(Database& database, const Search& wanted);

/// Facts of a record: the current time, ISO 8601 in UTC, and this machine's name.
std::string now_text();
std::string host_name();

}  // namespace tilewise
