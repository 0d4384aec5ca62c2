#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

class Database;

/// The records that serve on a GPU: winners that were measured there, and general records. Where
/// those of a kind of products (kind_text()) and a layout have more than `most` configurations,
/// only the records of `most` of them: together they are expected to be the fastest at the problems
/// of all, by the cost model and its corrections. Throws Error(invalid_argument) for a GPU key of
/// another version.
std::vector<Record> few_records(const Database& database, const std::string& gpu, std::size_t most);

}  // namespace tilewise
