#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

class Database;

/// What was measured of the configurations that serve on a GPU, at the problems that have a winner
/// or a general record there. Where a kind of products (kind_text()) and a layout have more than
/// `most` configurations, those of `most`: together they are the fastest at these problems, by
/// measurements, and where there is none by the cost model and its corrections. Throws
/// Error(invalid_argument) for a GPU key of another version.
std::vector<Record> few_records(const Database& database, const std::string& gpu, std::size_t most);

}  // namespace tilewise
