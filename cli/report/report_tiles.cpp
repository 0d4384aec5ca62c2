#include "cli/report/report_tiles.hpp"

#include <algorithm>

namespace tilewise::cli {
namespace {

/// The value of a parameter; `otherwise` where the configuration lacks it.
std::int64_t value_of(const Candidate& candidate, const char* name, std::int64_t otherwise = 0) {
  const int* found = candidate.configuration.find(name);
  return found ? *found : otherwise;
}

std::string sliced(const Candidate& candidate) {
  const std::int64_t slices = value_of(candidate, "SLICE_K", 1);
  return slices > 1 ? std::to_string(slices) + " warps share its k" : "";
}

std::vector<TileLevel> simt_levels(const Candidate& c) {
  const std::int64_t m = value_of(c, "THREAD_M"), n = value_of(c, "THREAD_N");
  const std::int64_t along_m = value_of(c, "WARP_M", 1);
  return {{"warp", m * along_m, n * (32 / std::max<std::int64_t>(1, along_m)), sliced(c)},
          {"thread", m, n, "its rows and columns may be interleaved with those of its neighbours"}};
}

std::vector<TileLevel> mma_levels(const Candidate& c) {
  return {{"warp", value_of(c, "WARP_M"), value_of(c, "WARP_N"), sliced(c)}};
}

std::vector<TileLevel> wgmma_levels(const Candidate& c) {
  const std::int64_t consumers = std::max<std::int64_t>(1, value_of(c, "CONSUMERS", 1));
  const std::int64_t m = value_of(c, "TILE_M"), n = value_of(c, "TILE_N");
  if (value_of(c, "PING_PONG") != 0) return {{"warpgroup", m, n, "warpgroups take tiles in turn"}};
  const std::string note = "four warps multiply it together";
  if (value_of(c, "SWAP_AB") != 0) return {{"warpgroup", m, n / consumers, note}};
  return {{"warpgroup", m / consumers, n, note}};
}

}  // namespace

std::vector<TileLevel> tile_levels(const Candidate& candidate, const Problem& problem) {
  const std::string& name = candidate.kernel_template;
  TileLevel block{"block", value_of(candidate, "TILE_M"), value_of(candidate, "TILE_N"), ""};
  if (name == "tiled") block.m = block.n = value_of(candidate, "TILE");
  if (name == "small") {
    block.m = problem.m / std::max<std::int64_t>(1, value_of(candidate, "SPLIT_M", 1));
    block.n = problem.n;
    if (value_of(candidate, "PRODUCTS", 1) * value_of(candidate, "GROUPS", 1) > 1)
      block.note = "a block does several products";
  }
  std::vector<TileLevel> inner;
  if (name == "simt") inner = simt_levels(candidate);
  if (name == "mma") inner = mma_levels(candidate);
  if (name == "wgmma") inner = wgmma_levels(candidate);
  if (name == "naive" || name == "tiled") inner = {{"thread", 1, 1, "one element"}};
  if (name == "small")
    inner = {{"thread", value_of(candidate, "THREAD_M"), value_of(candidate, "THREAD_N"), ""}};
  if (block.m <= 0 || block.n <= 0) return {};
  std::vector<TileLevel> levels{block};
  for (const TileLevel& level : inner)
    if (level.m > 0 && level.n > 0) levels.push_back(level);
  return levels;
}

}  // namespace tilewise::cli
