#include "templates/families/simt/numbers.hpp"
#include "templates/plan/stream_k.hpp"
#include "templates/space/common_constraints.hpp"

namespace tilewise::simt {
namespace {

using In = ConstraintInput;
using Common = CommonConstraints<Simt>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;
constexpr auto work_hint = Common::work_hint;

std::vector<int> group_m_values() { return {1, 4, 8, 16}; }

std::vector<Constraint> shape_constraints() {
  return {
      constraint("warps_tile_m", {"TILE_M", "THREAD_M", "WARP_M"},
                 "TILE_M is a multiple of THREAD_M x WARP_M",
                 [](const Simt& s, const In&) { return s.tile_m % (s.thread_m * s.warp_m) == 0; }),
      constraint(
          "warps_tile_n", {"TILE_N", "THREAD_N", "WARP_M"},
          "TILE_N is a multiple of THREAD_N x 32 / WARP_M",
          [](const Simt& s, const In&) { return s.tile_n % (s.thread_n * (32 / s.warp_m)) == 0; }),
      Common::block_size({"TILE_M", "TILE_N", "THREAD_M", "THREAD_N", "SLICE_K"}),
      constraint("unroll_divides", {"TILE_K", "SLICE_K", "UNROLL"},
                 "SLICE_K x UNROLL divides TILE_K",
                 [](const Simt& s, const In&) { return s.tile_k % (s.slice_k * s.unroll) == 0; }),
      constraint("fragments_fill_pass", {"FRAGMENT_K", "UNROLL"}, "FRAGMENT_K divides UNROLL",
                 [](const Simt& s, const In&) { return s.unroll % s.fragment_k == 0; }),
      constraint("slices_share_rows", {"SLICE_K", "THREAD_M", "THREAD_N"},
                 "SLICE_K divides THREAD_M, whose rows the groups share out at the end, and a "
                 "thread's sums are exchanged four at a time",
                 [](const Simt& s, const In&) {
                   return s.slice_k == 1 ||
                          (s.thread_m % s.slice_k == 0 && s.thread_m * s.thread_n % 4 == 0);
                 }),
      constraint("fragments_take_turns",
                 {"FRAGMENTS", "PREFETCH", "TILE_K", "SLICE_K", "FRAGMENT_K", "UNROLL"},
                 "two sets of FRAGMENTS need cp.async or TMA, a tile unrolled as a whole (UNROLL = "
                 "TILE_K / "
                 "SLICE_K) and an even number of steps in it",
                 [](const Simt& s, const In&) {
                   return s.fragments == 1 || (s.prefetch >= 3 && s.unroll == s.group_depth() &&
                                               s.group_depth() / s.fragment_k % 2 == 0);
                 }),
      constraint(
          "store_run", {"TRANSPOSE_B", "PACK_B", "THREAD_N", "VECTOR_C"},
          "VECTOR_C divides a thread's run of columns: 1 where B is staged with k contiguous, "
          "else the greatest of 4, 2, 1 that divides THREAD_N",
          [](const Simt& s, const In&) { return s.run_n() % s.vector_c == 0; }),
      constraint("vectors_fill_tile", {"TILE_M", "TILE_N", "VECTOR_A", "VECTOR_B"},
                 "VECTOR_A divides TILE_M and VECTOR_B divides TILE_N",
                 [](const Simt& s, const In&) {
                   return s.tile_m % s.vector_a == 0 && s.tile_n % s.vector_b == 0;
                 }),
      constraint("has_cp_async", {"PREFETCH"}, "PREFETCH by cp.async needs the feature cp_async",
                 [](const Simt& s, const In& in) {
                   return !s.by_cp_async() || has(in.device.features, Feature::cp_async);
                 }),
      Common::has_tma("PREFETCH"),
      constraint("swizzle_repeats", {"TILE_M", "TRANSPOSE_A", "PACK_A", "PREFETCH", "VECTOR_A"},
                 "where TMA copies A with k contiguous, TILE_M is a multiple of 8",
                 [](const Simt& s, const In&) {
                   return !s.a_by_tma() || !s.a_along_k || s.tile_m % 8 == 0;
                 }),
      Common::tma_sizes("PREFETCH"),
  };
}

std::vector<Constraint> problem_constraints() {
  return {
      constraint("aligned_a", {"VECTOR_A", "PACK_A"},
                 "VECTOR_A x 4 bytes is no more than A's alignment (a packed A has 16)",
                 [](const Simt& s, const In& in) {
                   return s.vector_a * 4 <= reads_a_alignment(in.problem, s.pack_a);
                 }),
      constraint("aligned_b", {"VECTOR_B", "PACK_B"},
                 "VECTOR_B x 4 bytes is no more than B's alignment (a packed B has 16)",
                 [](const Simt& s, const In& in) {
                   return s.vector_b * 4 <= reads_b_alignment(in.problem, s.pack_b);
                 }),
      constraint(
          "aligned_c", {"VECTOR_C", "SPLIT_K", "TILE_M", "TILE_N", "TILE_K", "BLOCKS_PER_SM"},
          "VECTOR_C x 4 bytes is no more than C's alignment; partial sums have rows of n",
          [](const Simt& s, const In& in) {
            return s.parts(in.problem, in.device) > 1 ? in.problem.n % s.vector_c == 0
                                                      : s.vector_c * 4 <= in.problem.c.alignment;
          }),
      constraint("stream_k_has_tiles",
                 {"STREAM_K", "SPLIT_K", "TILE_M", "TILE_N", "TILE_K", "BLOCKS_PER_SM"},
                 "STREAM_K needs a partial last wave (tiles are no multiple of BLOCKS_PER_SM x "
                 "multiprocessors), SPLIT_K 1, and no batch",
                 [](const Simt& s, const In& in) {
                   return !s.stream_k ||
                          (s.split == 1 && !is_batched(in.problem) &&
                           stream_k_of(in.problem, s.tile_m, s.tile_n, s.tile_k, s.slots(in.device))
                                   .rest_tiles > 0);
                 }),
      Common::grid_fits({"TILE_M", "TILE_N", "TILE_K", "SPLIT_K", "BLOCKS_PER_SM"}),
  };
}

std::vector<Constraint> resource_constraints() {
  return {
      Common::shared_fits(
          {"TILE_M", "TILE_N", "TILE_K", "SLICE_K", "FRAGMENT_K", "TRANSPOSE_A", "TRANSPOSE_B",
           "PACK_A", "PACK_B", "PREFETCH", "VECTOR_A", "VECTOR_B", "BLOCKS_PER_SM"},
          "the stages (and the sums that SLICE_K groups exchange) of BLOCKS_PER_SM blocks"),
      Common::threads_resident(
          {"TILE_M", "TILE_N", "THREAD_M", "THREAD_N", "SLICE_K", "BLOCKS_PER_SM"}),
      Common::registers_fit({"TILE_M", "TILE_N", "TILE_K", "THREAD_M", "THREAD_N", "SLICE_K",
                             "FRAGMENT_K", "FRAGMENTS", "TRANSPOSE_A", "TRANSPOSE_B", "PACK_A",
                             "PACK_B", "PREFETCH", "VECTOR_A", "VECTOR_B", "BLOCKS_PER_SM"},
                            "THREAD_M x THREAD_N sums, fragments and fetched elements"),
  };
}

std::vector<Constraint> search_hints() {
  return {
      hint("tile_m_used", {"TILE_M"}, "TILE_M is less than twice m (or the smallest)",
           [](const Simt& s, const In& in) {
             return s.tile_m == 16 || s.tile_m < 2 * most_rows(in.problem);
           }),
      hint("tile_n_used", {"TILE_N"}, "TILE_N is less than twice n (or the smallest)",
           [](const Simt& s, const In& in) {
             return s.tile_n == 16 || s.tile_n < 2 * in.problem.n;
           }),
      hint("vectors_where_aligned", {"VECTOR_A", "VECTOR_B", "PACK_A", "PACK_B"},
           "loads are as wide as the operand's alignment allows, or half that",
           [](const Simt& s, const In& in) {
             return s.vector_a * 8 >= std::min(16, reads_a_alignment(in.problem, s.pack_a)) &&
                    s.vector_b * 8 >= std::min(16, reads_b_alignment(in.problem, s.pack_b));
           }),
      hint("transposes_where_k_contiguous", {"TRANSPOSE_A", "PACK_A", "TRANSPOSE_B", "PACK_B"},
           "only a tile whose k is contiguous is transposed",
           [](const Simt& s, const In&) {
             return (!s.transpose_a || s.a_along_k) && (!s.transpose_b || s.b_along_k);
           }),
      hint("fragments_of_vectors", {"FRAGMENT_K", "TRANSPOSE_A", "PACK_A", "TRANSPOSE_B", "PACK_B"},
           "FRAGMENT_K is above 1 exactly where a tile is staged with k contiguous",
           [](const Simt& s, const In&) {
             return (s.fragment_k > 1) == (s.a_staged_k() || s.b_staged_k());
           }),
      hint("long_passes", {"UNROLL", "TILE_K", "SLICE_K"},
           "a pass is at least 8 steps of k, or a group's whole part",
           [](const Simt& s, const In&) { return s.unroll >= 8 || s.unroll == s.group_depth(); }),
      hint("enough_threads",
           {"TILE_M", "TILE_N", "THREAD_M", "THREAD_N", "SLICE_K", "BLOCKS_PER_SM"},
           "a multiprocessor has at least 128 threads, a block at least 64",
           [](const Simt& s, const In&) {
             return s.threads() >= 64 && s.threads() * s.blocks >= 128;
           }),
      hint("enough_reuse", {"THREAD_M", "THREAD_N"},
           "a thread does at least two multiply-adds for each value it reads, or m or n is small",
           [](const Simt& s, const In& in) {
             return std::min(in.problem.m, in.problem.n) < 64 ||
                    s.thread_m * s.thread_n >= 2 * (s.thread_m + s.thread_n) ||
                    s.thread_m * s.thread_n >= 16;
           }),
      Common::split_needed(16),
      work_hint("stream_k_has_work", {"STREAM_K", "TILE_M", "TILE_N", "TILE_K", "BLOCKS_PER_SM"},
                "a stream-K block has at least four tiles of k, and there are at most 32 waves",
                [](const Simt& s, const In& in) {
                  if (!s.stream_k) return true;
                  const StreamK stream_k =
                      stream_k_of(in.problem, s.tile_m, s.tile_n, s.tile_k, s.slots(in.device));
                  return stream_k.share >= 4 && stream_k.whole_tiles <= 32 * s.slots(in.device);
                },
                {"STREAM_K"}),
      hint("filling_splits", {"TILE_M", "TILE_N", "TILE_K", "SPLIT_K", "BLOCKS_PER_SM"},
           "k is split to fill the device (SPLIT_K 0) only where that makes parts",
           [](const Simt& s, const In& in) {
             return s.split > 0 || s.parts(in.problem, in.device) > 1;
           }),
      Common::split_has_work(),
      work_hint("pack_a_pays", {"PACK_A"},
                "A is padded only when it is not aligned, and packed only when n uses it 256 times",
                [](const Simt& s, const In& in) {
                  return s.pack_a == Pack::none ||
                         (in.problem.n >= 256 &&
                          (s.pack_a != Pack::pad || in.problem.a.alignment < 16));
                },
                {"PACK_A"}),
      work_hint("pack_b_pays", {"PACK_B"},
                "B is padded only when it is not aligned, and packed only when m uses it 256 times",
                [](const Simt& s, const In& in) {
                  return s.pack_b == Pack::none ||
                         (in.problem.m >= 256 &&
                          (s.pack_b != Pack::pad || in.problem.b.alignment < 16));
                },
                {"PACK_B"}),
      hint("order_matters", {"THREAD_M", "FMA_ORDER", "FRAGMENT_K"},
           "serpentine needs two rows, row pairs two pairs, rows through k several steps of it",
           [](const Simt& s, const In& in) {
             const int order = value_or_1(in.configuration, "FMA_ORDER");
             return order == 3 ? s.fragment_k > 1 : order == 0 || s.thread_m >= 2 * order;
           }),
      Common::specializing_pays(),
      Common::group_m_matters(group_m_values()),
  };
}

}  // namespace

std::vector<Parameter> parameters() {
  return {
      {"TILE_M",
       {16, 32, 36, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256},
       "rows of C a block computes"},
      {"TILE_N",
       {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256},
       "columns of C a block computes"},
      {"TILE_K", {8, 16, 32, 64}, "depth of the tiles in shared memory"},
      {"THREAD_M", {1, 2, 4, 5, 6, 8, 9, 10, 12, 16}, "rows of C a thread computes"},
      {"THREAD_N", {1, 2, 4, 6, 8, 12, 16}, "columns of C a thread computes"},
      {"WARP_M", {1, 2, 4, 8, 16}, "threads of a warp along m; 32 / WARP_M along n"},
      {"SLICE_K", {1, 2, 4, 8}, "sliced-K: groups of warps that share a tile's k"},
      {"UNROLL", {1, 2, 4, 8, 16, 32, 64}, "steps of the tile's k in a pass of the loop"},
      {"FRAGMENT_K", {1, 2, 4}, "steps of k a thread reads at a time"},
      {"FRAGMENTS", {1, 2}, "sets of fragments: 2 reads the next while one is multiplied"},
      {"TRANSPOSE_A", {0, 1}, "transpose A's tile on its way into shared memory", {"no", "yes"}},
      {"TRANSPOSE_B", {0, 1}, "transpose B's tile on its way into shared memory", {"no", "yes"}},
      {"PACK_A", {0, 1, 2}, "copy A beforehand", {"no", "padded", "transposed"}},
      {"PACK_B", {0, 1, 2}, "copy B beforehand", {"no", "padded", "transposed"}},
      {"PREFETCH",
       {0, 1, 2, 3, 4, 5, 6, 7, 8},
       "how the next tile is copied while this one is used; a number: stages",
       {"none", "registers", "double-buffer", "cp.async-2", "cp.async-3", "cp.async-4", "tma-3",
        "tma-4", "tma-6"}},
      {"VECTOR_A", {1, 2, 4}, "elements of A a load moves"},
      {"VECTOR_B", {1, 2, 4}, "elements of B a load moves"},
      {"VECTOR_C", {1, 2, 4}, "elements of C a store moves"},
      {"BLOCKS_PER_SM",
       {1, 2, 3, 4, 6},
       "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K",
       {0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128, 256},
       "blocks that share the k of a tile; 0: as many as run at a time"},
      {"STREAM_K", {0, 1}, "stream-K: the last wave's tiles are shared out evenly", {"no", "yes"}},
      {"GROUP_M", group_m_values(), "tile rows whose blocks run together, for L2 (tile order)"},
      {"FMA_ORDER",
       {0, 1, 2, 3},
       "order of the multiply-adds",
       {"rows", "serpentine", "row-pairs", "rows-through-k"}},
      {"SPECIALIZE_SIZE", {0, 1}, "sizes are constants of the kernel", {"no", "yes"}},
      {std::string(kMaxRegisters),
       {0, 255},
       "the compiler's register limit a thread; BLOCKS_PER_SM is the stricter one, but the "
       "compiler "
       "then schedules instructions differently; 0: no limit"},
  };
}

std::vector<Constraint> constraints() {
  std::vector<Constraint> all;
  for (auto* part :
       {&shape_constraints, &problem_constraints, &resource_constraints, &search_hints})
    for (Constraint& c : part()) all.push_back(std::move(c));
  return all;
}

}  // namespace tilewise::simt
