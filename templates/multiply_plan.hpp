#pragma once
#include "tilewise/device_info.hpp"
#include "tilewise/plan.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// How a pack step changes an operand on its way into the workspace.
enum class Pack : int { none = 0, pad = 1, transpose = 2 };

/// What the multiply step of a SIMT template looks like; the rest of the plan follows from it.
struct MultiplyShape {
  KernelSpec kernel;  ///< without A_TRANSPOSED, B_TRANSPOSED: they follow from layout and packs
  int tile_m = 1, tile_n = 1, tile_k = 1;
  int threads = 1;
  std::uint32_t shared_bytes = 0;
  int splits = 1;  ///< parts of k; more than 1 adds a reduce step
  int raster = 1;  ///< tile rows walked together
  Pack pack_a = Pack::none, pack_b = Pack::none;
  double shared_bytes_per_flop = 0;  ///< read from shared memory, for Work
};

/// Whether the operand as the multiply kernel reads it is stored transposed (after its pack).
bool reads_a_transposed(const Problem& problem, Pack pack);
bool reads_b_transposed(const Problem& problem, Pack pack);

/// Alignment in bytes of the operand as the multiply kernel reads it: a packed one is on 128 bytes.
int reads_a_alignment(const Problem& problem, Pack pack);
int reads_b_alignment(const Problem& problem, Pack pack);

/// Whether tiles x splits fits the grid's x, and k the kernels' tile counter.
bool grid_fits(const Problem& problem, std::int64_t tile_m, std::int64_t tile_n,
               std::int64_t tile_k, std::int64_t splits);

/// Packs, multiply and reduce, in order. No steps when m or n is 0.
Plan multiply_plan(const Problem& problem, MultiplyShape shape);

}  // namespace tilewise
