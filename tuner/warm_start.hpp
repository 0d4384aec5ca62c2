#pragma once
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/search_space.hpp"

namespace tilewise {

/// What was fastest for the nearest problems of the same kind on the same GPU, as far as it is
/// valid for the space's problem: a few candidates of each, nearest problem first, fastest first.
std::vector<Candidate> good_elsewhere(const Database& database, const SearchSpace& space,
                                      const std::string& gpu);

}  // namespace tilewise
