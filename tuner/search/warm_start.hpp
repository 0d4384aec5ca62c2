#pragma once
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// What was fastest for the nearest problems on the same GPU whose elements are as wide and which
/// are multiplied the same way, as far as it is valid for the space's problem: a few candidates of
/// each, nearest problem first (the same layout before others), fastest first.
std::vector<Candidate> transferred_candidates(const Database& database, const SearchSpace& space,
                                              const std::string& gpu);

}  // namespace tilewise
