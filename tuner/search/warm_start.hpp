#pragma once
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// Warm start: the fastest candidates of the nearest problems on the same GPU with the same element
/// widths and math mode that are valid for the space's problem. A few of each, nearest problem
/// first (the same layout before others), fastest first.
std::vector<Candidate> transferred_candidates(const Database& database, const SearchSpace& space,
                                              const std::string& gpu);

/// The shipped candidates for GPUs of the device's capability (matmul/portfolio.hpp) that are
/// expected to be fastest for the space's problem, or for the same product of the other 16-bit
/// float: at most six, fastest first. None where the device has no cost model.
std::vector<Candidate> shipped_candidates(const Database& database, const SearchSpace& space);

}  // namespace tilewise
