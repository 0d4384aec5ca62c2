#pragma once
#include <algorithm>

#include "templates/constraints.hpp"
#include "templates/kernel_template.hpp"
#include "templates/multiply_plan.hpp"
#include "vocabulary/configuration.hpp"

namespace tilewise::simt {

/// The configuration as plain numbers, and what follows from them; the same arithmetic as simt.cu.
struct Simt {
  int tile_m, tile_n, tile_k, thread_m, thread_n, warp_m, slice_k, fragment_k, fragments, unroll;
  bool transpose_a, transpose_b;
  Pack pack_a, pack_b;
  int prefetch, vector_a, vector_b, vector_c, blocks, split, raster;
  bool tail, bake;
  bool a_along_k, b_along_k;  // k is contiguous in memory, as the kernel reads the operand

  Simt(const Problem& problem, const Configuration& c)
      : tile_m(value_or_1(c, "TILE_M")),
        tile_n(value_or_1(c, "TILE_N")),
        tile_k(value_or_1(c, "TILE_K")),
        thread_m(value_or_1(c, "THREAD_M")),
        thread_n(value_or_1(c, "THREAD_N")),
        warp_m(value_or_1(c, "WARP_M")),
        slice_k(value_or_1(c, "SLICE_K")),
        fragment_k(value_or_1(c, "FRAGMENT_K")),
        fragments(value_or_1(c, "FRAGMENTS")),
        unroll(value_or_1(c, "UNROLL")),
        transpose_a(value_or_1(c, "TRANSPOSE_A") != 0),
        transpose_b(value_or_1(c, "TRANSPOSE_B") != 0),
        pack_a(Pack(value_or_1(c, "PACK_A"))),
        pack_b(Pack(value_or_1(c, "PACK_B"))),
        prefetch(value_or_1(c, "PREFETCH")),
        vector_a(value_or_1(c, "VECTOR_A")),
        vector_b(value_or_1(c, "VECTOR_B")),
        vector_c(value_or_1(c, "VECTOR_C")),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        split(value_or_1(c, "SPLIT_K")),
        raster(value_or_1(c, "RASTER")),
        tail(value_or_1(c, "TAIL") == 1),
        bake(value_or_1(c, "BAKE") == 1),
        a_along_k(!reads_a_transposed(problem, pack_a)),
        b_along_k(reads_b_transposed(problem, pack_b)) {}

  int threads() const { return (tile_m / thread_m) * (tile_n / thread_n) * slice_k; }
  /// Of a tile's k, for one group of warps.
  int group_depth() const { return tile_k / slice_k; }
  /// Blocks that run at a time.
  int slots(const DeviceInfo& device) const { return device.multiprocessors * blocks; }
  /// Blocks that share the k of a tile. SPLIT_K 0: as many as run at a time, if each has four tiles
  /// of k.
  int parts(const Problem& problem, const DeviceInfo& device) const {
    if (split > 0) return split;
    const auto pieces = [](std::int64_t size, int tile) { return (size + tile - 1) / tile; };
    const std::int64_t tiles = std::max<std::int64_t>(
        1, problem.batch * pieces(problem.m, tile_m) * pieces(problem.n, tile_n));
    const std::int64_t most = pieces(problem.k, tile_k) / 4;
    return static_cast<int>(std::max<std::int64_t>(1, std::min(slots(device) / tiles, most)));
  }
  bool in_ring() const { return prefetch >= 6; }
  /// TMA brings tiles as they lie; what it cannot bring goes through registers.
  bool a_by_tma() const { return in_ring() && !transpose_a && vector_a == 4; }
  bool b_by_tma() const { return in_ring() && !transpose_b && vector_b == 4; }
  bool by_cp_async() const { return prefetch >= 3 && prefetch < 6; }
  int stages() const {
    constexpr int of_prefetch[] = {1, 1, 2, 2, 3, 4, 3, 4, 6};
    return of_prefetch[prefetch];
  }
  bool a_held_k() const { return a_along_k != transpose_a; }
  bool b_held_k() const { return b_along_k != transpose_b; }

  int tile_elements(int span, int vector, bool held_k, bool transpose, bool tma) const {
    int pad =
        held_k ? (transpose ? fragment_k : std::max(vector, fragment_k)) : (transpose ? 4 : 0);
    if (tma) pad = 0;
    const int elements = held_k ? span * (tile_k + pad) : tile_k * (span + pad);
    const int whole = in_ring() ? 256 : 4;
    return (elements + whole - 1) / whole * whole;
  }
  std::uint32_t shared_bytes() const {
    const int tiles =
        stages() * (tile_elements(tile_m, vector_a, a_held_k(), transpose_a, a_by_tma()) +
                    tile_elements(tile_n, vector_b, b_held_k(), transpose_b, b_by_tma()));
    const int arrivals =
        in_ring() ? 4 * stages() : 0;  // two counters of 8 bytes a stage, as floats
    const int exchanged = slice_k > 1 ? slice_k * tile_m * tile_n : 0;  // when groups are added up
    return static_cast<std::uint32_t>(4 * (std::max(tiles, exchanged) + arrivals));
  }
  /// Elements a thread fetches of a tile, in whole vectors.
  int fetched(int span, int vector) const {
    return (span * tile_k / vector + threads() - 1) / threads() * vector;
  }
  /// Whether an operand's tile waits in registers before it is stored.
  bool a_staged() const { return staged(transpose_a, vector_a, a_by_tma()); }
  bool b_staged() const { return staged(transpose_b, vector_b, b_by_tma()); }
  /// Sums, fragments (of several steps of k not all at once), what is on its way, and addresses.
  int registers() const {
    const int fetch =
        (a_staged() ? fetched(tile_m, vector_a) : 0) + (b_staged() ? fetched(tile_n, vector_b) : 0);
    const int sets = std::max(fragments, 1) * (fragment_k >= 4 ? fragment_k / 2 : fragment_k);
    return thread_m * thread_n + std::max(sets, 1) * (thread_m + thread_n) + fetch + 24;
  }
  int run_n() const { return run(thread_n, b_held_k()); }
  /// Instructions that read one operand's fragments, a step of k.
  double reads(int thread, bool held_k) const {
    return held_k ? double(thread) / fragment_k : double(thread) / run(thread, false);
  }

 private:
  bool staged(bool transpose, int vector, bool tma) const {
    if (in_ring()) return !tma;
    return prefetch == 1 || prefetch == 2 || (by_cp_async() && transpose && vector > 1);
  }
  static int run(int thread, bool held_k) {
    return held_k ? 1 : (thread % 4 == 0 ? 4 : (thread % 2 == 0 ? 2 : 1));
  }
};

std::vector<Parameter> parameters();
std::vector<Constraint> constraints();

}  // namespace tilewise::simt
