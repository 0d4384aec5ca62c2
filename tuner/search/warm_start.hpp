#pragma once
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// Warm start: the fastest candidates of the nearest problems on the same GPU with the same element
/// widths and math mode, if valid for the space's problem. A few of each, nearest problem first
/// (the same layout before others), fastest first.
std::vector<Candidate> transferred_candidates(const Database& database, const SearchSpace& space,
                                              const std::string& gpu);

}  // namespace tilewise
