#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

class Database;

/// The fastest measurements at each problem with records on a GPU: of the configurations that serve
/// there, in any layout, and of those that ship. Where a kind of products (kind_text()) and a
/// layout have more than `most` configurations, of `most`: together they are the fastest at these
/// problems, by measurements, and where there is none by the cost model and its corrections.
/// Configurations of one family_of() are one. Throws Error(invalid_argument) for a GPU key of
/// another version.
std::vector<Record> few_records(const Database& database, const std::string& gpu, std::size_t most);

}  // namespace tilewise
