#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"

namespace tilewise::cli {

/// The part of C that one block, warp or thread computes.
struct TileLevel {
  std::string name;  ///< "block", "warpgroup", "warp", "thread"
  std::int64_t m = 0, n = 0;
  std::string note;  ///< what else shares the part, or how it is laid out
};

/// The parts of C from the block inwards; those levels that follow from the parameters of the
/// catalog's templates. Empty for an unknown template.
std::vector<TileLevel> tile_levels(const Candidate& candidate, const Problem& problem);

}  // namespace tilewise::cli
