#pragma once
#include <algorithm>

#include "templates/families/simt/layout.hpp"
#include "templates/kernel_template.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/space/constraints.hpp"
#include "vocabulary/configuration.hpp"

namespace tilewise::simt {

/// The configuration as plain numbers, and what follows from them.
struct Simt {
  int tile_m, tile_n, tile_k, thread_m, thread_n, warp_m, slice_k, fragment_k, fragments, unroll;
  bool transpose_a, transpose_b;
  Pack pack_a, pack_b;
  int prefetch, vector_a, vector_b, vector_c, blocks, split, group_m;
  bool stream_k, specialize_size;
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
        group_m(value_or_1(c, "GROUP_M")),
        stream_k(value_or_1(c, "STREAM_K") == 1),
        specialize_size(value_or_1(c, "SPECIALIZE_SIZE") == 1),
        a_along_k(!reads_a_transposed(problem, pack_a)),
        b_along_k(reads_b_transposed(problem, pack_b)) {}

  int threads() const { return (tile_m / thread_m) * (tile_n / thread_n) * slice_k; }
  /// Steps of a tile's k for one group of warps.
  int group_depth() const { return tile_k / slice_k; }
  /// Blocks that run at a time.
  int slots(const DeviceInfo& device) const { return device.multiprocessors * blocks; }
  /// Blocks that share the k of a tile of C. SPLIT_K 0: as many as fill the device, each with at
  /// least four tiles of k.
  int parts(const Problem& problem, const DeviceInfo& device) const {
    if (split > 0) return split;
    const auto pieces = [](std::int64_t size, int tile) { return (size + tile - 1) / tile; };
    const std::int64_t tiles = std::max<std::int64_t>(
        1, problem.batch * pieces(problem.m, tile_m) * pieces(problem.n, tile_n));
    const std::int64_t most = pieces(problem.k, tile_k) / 4;
    return static_cast<int>(std::max<std::int64_t>(1, std::min(slots(device) / tiles, most)));
  }
  bool by_tma() const { return prefetch >= 6; }
  /// Whether TMA copies the operand's tiles; tiles that it cannot copy pass through registers.
  bool a_by_tma() const { return layout_a().by_tma(); }
  bool b_by_tma() const { return layout_b().by_tma(); }
  bool by_cp_async() const { return prefetch >= 3 && prefetch < 6; }
  int stages() const { return stages_of(prefetch); }
  bool a_staged_k() const { return layout_a().staged_k(); }
  bool b_staged_k() const { return layout_b().staged_k(); }

  TileLayout layout_a() const {
    return {tile_m, tile_k, vector_a, a_along_k, transpose_a, prefetch, fragment_k};
  }
  TileLayout layout_b() const {
    return {tile_n, tile_k, vector_b, b_along_k, transpose_b, prefetch, fragment_k};
  }
  std::uint32_t shared_bytes() const {
    const BlockLayout block{layout_a().elements() + layout_b().elements(), prefetch, tile_m, tile_n,
                            slice_k};
    return static_cast<std::uint32_t>(block.shared_bytes());
  }
  /// Elements of a tile that a thread loads, in whole vectors.
  int fetched(int span, int vector) const {
    return (span * tile_k / vector + threads() - 1) / threads() * vector;
  }
  /// Whether an operand's tile passes through registers.
  bool a_staged() const { return waits_in_registers() || layout_a().by_registers(); }
  bool b_staged() const { return waits_in_registers() || layout_b().by_registers(); }
  /// An estimate: sums, fragments (of several steps of k not all at once), elements in flight, and
  /// addresses.
  int registers(const DeviceInfo&) const {
    const int fetch =
        (a_staged() ? fetched(tile_m, vector_a) : 0) + (b_staged() ? fetched(tile_n, vector_b) : 0);
    const int sets = std::max(fragments, 1) * (fragment_k >= 4 ? fragment_k / 2 : fragment_k);
    return thread_m * thread_n + std::max(sets, 1) * (thread_m + thread_n) + fetch + 24;
  }
  int run_n() const { return run(thread_n, b_staged_k()); }
  /// Instructions by which a thread reads one operand's fragments of a step of k.
  double reads(int thread, bool staged_k) const {
    return staged_k ? double(thread) / fragment_k : double(thread) / run(thread, false);
  }

 private:
  bool waits_in_registers() const { return prefetch == 1 || prefetch == 2; }
  static int run(int thread, bool staged_k) {
    return staged_k ? 1 : (thread % 4 == 0 ? 4 : (thread % 2 == 0 ? 2 : 1));
  }
};

std::vector<Parameter> parameters();
std::vector<Constraint> constraints();

}  // namespace tilewise::simt
