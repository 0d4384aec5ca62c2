#include "templates/families/mma/numbers.hpp"
#include "templates/space/common_constraints.hpp"

namespace tilewise::mma {
namespace {

using In = ConstraintInput;
using Common = CommonConstraints<Mma>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;
constexpr auto work_hint = Common::work_hint;

std::vector<int> group_m_values() { return {1, 4, 8, 16}; }

// The largest k at which f16's instruction keeps sums within half of fp8's error bound,
// sum_bound(): k 2^-23 against 130 x 2^-13.
constexpr std::int64_t kF16SumsFp8 = 65536;

std::vector<Constraint> shape_constraints() {
  return {
      constraint("warps_tile_m", {"TILE_M", "WARP_M"}, "TILE_M is a multiple of WARP_M",
                 [](const Mma& s, const In&) { return s.tile_m % s.warp_m == 0; }),
      constraint("warps_tile_n", {"TILE_N", "WARP_N"}, "TILE_N is a multiple of WARP_N",
                 [](const Mma& s, const In&) { return s.tile_n % s.warp_n == 0; }),
      constraint("whole_steps", {"TILE_K", "SLICE_K"},
                 "TILE_K is a multiple of SLICE_K x what one instruction takes of k: 32 bytes of "
                 "elements, of f64 64",
                 [](const Mma& s, const In&) { return s.tile_k % (s.step() * s.slice_k) == 0; }),
      Common::block_size({"TILE_M", "TILE_N", "WARP_M", "WARP_N", "SLICE_K"}),
      constraint("a_fills_lines", {"TILE_M", "TILE_K", "PACK_A"},
                 "a row of A's tile (TILE_K elements where k is contiguous, else TILE_M) is a "
                 "multiple of 128 bytes; 64 or 32 where ldmatrix reads it",
                 [](const Mma& s, const In&) { return s.a.lines(); }),
      constraint("b_fills_lines", {"TILE_N", "TILE_K", "PACK_B"},
                 "a row of B's tile (TILE_K elements where k is contiguous, else TILE_N) is a "
                 "multiple of 128 bytes; 64 or 32 where ldmatrix reads it",
                 [](const Mma& s, const In&) { return s.b.lines(); }),
      constraint(
          "threads_take_rows_of_a",
          {"TILE_M", "TILE_N", "TILE_K", "WARP_M", "WARP_N", "SLICE_K", "PACK_A", "BYTES_A"},
          "the number of 16-byte chunks of a row of A's tile divides the threads of a block; "
          "where BYTES_A is below 4, those of a warp",
          [](const Mma& s, const In&) { return s.takes_rows(s.a); }),
      constraint(
          "threads_take_rows_of_b",
          {"TILE_M", "TILE_N", "TILE_K", "WARP_M", "WARP_N", "SLICE_K", "PACK_B", "BYTES_B"},
          "the number of 16-byte chunks of a row of B's tile divides the threads of a block; "
          "where BYTES_B is below 4, those of a warp",
          [](const Mma& s, const In&) { return s.takes_rows(s.b); }),
      constraint(
          "reads_tile_a", {"WARP_M", "PACK_A", "TMA", "BYTES_A"},
          "WARP_M is a multiple of 16; of 32 where A's m is contiguous and elements are 1 or "
          "4 bytes, or where TMA copies row classes of 4-byte elements",
          [](const Mma& s, const In&) { return s.warp_m % s.a.least_part() == 0; }),
      constraint(
          "reads_tile_b", {"WARP_N", "PACK_B", "TMA", "BYTES_B"},
          "WARP_N is a multiple of 16; of 32 where B's n is contiguous and elements are 1 or "
          "4 bytes, or where TMA copies row classes of 4-byte elements",
          [](const Mma& s, const In&) { return s.warp_n % s.b.least_part() == 0; }),
      constraint(
          "promotes_where_it_helps", {"PROMOTE"},
          "PROMOTE is 1 or more for f32x3 and fp8 (within 128 of k), else 0; 0 for fp8 too where "
          "it is multiplied as f16 and k is at most 65536, and in the mode fast",
          [](const Mma& s, const In& in) {
            if (s.math == MathMode::f32x3) return s.promote > 0;
            if (!s.fp8) return s.promote == 0;
            if (s.promote == 0)
              return s.math == MathMode::fast ||
                     (s.multiplies_as_f16(in.device) && in.problem.k <= kF16SumsFp8);
            return s.promote * s.step() <= 128;
          }),
      constraint(
          "whole_promotions", {"PROMOTE", "TILE_K", "SLICE_K"},
          "PROMOTE divides the steps of a tile",
          [](const Mma& s, const In&) { return s.promote == 0 || s.steps() % s.promote == 0; }),
      constraint("steps_take_turns", {"FRAGMENTS", "TILE_K", "SLICE_K"},
                 "two sets of FRAGMENTS need an even number of steps in a group's part of TILE_K",
                 [](const Mma& s, const In&) { return s.fragments == 1 || s.steps() % 2 == 0; }),
  };
}

bool bytes_allowed(int bytes, int element) {
  return bytes == element || (bytes >= 4 && bytes > element);
}

std::vector<Constraint> problem_constraints() {
  return {
      constraint("bytes_of_a", {"BYTES_A", "PACK_A"},
                 "BYTES_A is no more than A's alignment (a packed A has 16), and either an element "
                 "or at least 4",
                 [](const Mma& s, const In& in) {
                   return bytes_allowed(s.a.bytes, s.element) &&
                          s.a.bytes <= reads_a_alignment(in.problem, s.pack_a);
                 }),
      constraint("bytes_of_b", {"BYTES_B", "PACK_B"},
                 "BYTES_B is no more than B's alignment (a packed B has 16), and either an element "
                 "or at least 4",
                 [](const Mma& s, const In& in) {
                   return bytes_allowed(s.b.bytes, s.element) &&
                          s.b.bytes <= reads_b_alignment(in.problem, s.pack_b);
                 }),
      constraint("aligned_c", {"VECTOR_C", "SPLIT_K", "EPILOGUE"},
                 "VECTOR_C elements are at most 16 bytes; where EPILOGUE writes from registers, at "
                 "most C's alignment (of partial sums: the alignment of rows of n)",
                 [](const Mma& s, const In& in) {
                   return s.vector_c * s.out_bytes() <= 16 &&
                          (s.epilogue || !s.shift_c(in.problem));
                 }),
      constraint("stores_fit_fragments",
                 {"EPILOGUE", "VECTOR_C", "WARP_N", "PACK_B", "TMA", "BYTES_B"},
                 "where EPILOGUE writes from registers, VECTOR_C is at most 2, and 1 where a "
                 "lane's columns "
                 "are not neighbours; else it divides WARP_N",
                 [](const Mma& s, const In&) {
                   if (s.epilogue) return s.warp_n % s.vector_c == 0;
                   return s.vector_c <= (s.b.pairs() ? 2 : 1);
                 }),
      Common::has_tma("TMA"),
      constraint(
          "tma_takes_both",
          {"TMA", "BYTES_A", "BYTES_B", "PACK_A", "PACK_B", "TILE_M", "TILE_N", "TILE_K"},
          "TMA copies operands aligned to 16 bytes (8-bit ones where k is contiguous), or row "
          "classes of 4- or 8-byte elements, with box rows of at most 256 elements",
          [](const Mma& s, const In&) { return !s.tma || (s.a.by_tma() && s.b.by_tma()); }),
      constraint("row_classes_have_rows", {"TMA", "BYTES_A", "BYTES_B", "PACK_A", "PACK_B"},
                 "an operand that TMA copies in row classes has a row of each class: 4 rows of "
                 "4-byte elements, 2 of 8-byte ones",
                 [](const Mma& s, const In& in) {
                   const Problem& p = in.problem;
                   return (s.a.along_k ? p.m : p.k) >= s.a.row_classes() &&
                          (s.b.along_k ? p.n : p.k) >= s.b.row_classes();
                 }),
      constraint(
          "tma_places_tiles",
          {"TMA", "TILE_M", "TILE_N", "TILE_K", "PACK_A", "PACK_B", "BYTES_A", "BYTES_B"},
          "each operand's tile is a multiple of 1024 bytes, TMA's alignment of swizzled tiles",
          [](const Mma& s, const In&) {
            return !s.tma || (s.a.staged_bytes() % 1024 == 0 && s.b.staged_bytes() % 1024 == 0);
          }),
      Common::tma_sizes("TMA"),
      Common::grid_fits({"TILE_M", "TILE_N", "TILE_K", "SPLIT_K"}),
  };
}

std::vector<Constraint> resource_constraints() {
  return {
      Common::shared_fits(
          {"TILE_M", "TILE_N", "TILE_K", "WARP_M", "WARP_N", "SLICE_K", "STAGES", "TMA", "EPILOGUE",
           "PACK_A", "PACK_B", "BYTES_A", "BYTES_B", "BLOCKS_PER_SM"},
          "the stages (or the epilogue scratch, if larger) of BLOCKS_PER_SM blocks"),
      Common::threads_resident(
          {"TILE_M", "TILE_N", "WARP_M", "WARP_N", "SLICE_K", "BLOCKS_PER_SM"}),
      Common::registers_fit(
          {"TILE_M", "TILE_N", "TILE_K", "WARP_M", "WARP_N", "SLICE_K", "FRAGMENTS", "PROMOTE",
           "TMA", "BYTES_A", "BYTES_B", "PACK_A", "PACK_B", "BLOCKS_PER_SM"},
          "sums, fragments and fetched elements"),
  };
}

/// Whether packing an operand may pay: it is used `times` times.
bool used_often(std::int64_t times, std::int64_t k) {
  return times >= 128 || (times >= 32 && k >= 8192);
}

std::vector<Constraint> search_hints() {
  return {
      hint("tile_m_used", {"TILE_M", "PACK_A"},
           "TILE_M is less than twice m (or the smallest, or what fills a line where m is "
           "contiguous)",
           [](const Mma& s, const In& in) {
             return s.tile_m == 16 || s.tile_m < 2 * most_rows(in.problem) || s.a.least_line();
           }),
      hint("tile_n_used", {"TILE_N", "PACK_B"},
           "TILE_N is less than twice n (or the smallest, or what fills a line where n is "
           "contiguous)",
           [](const Mma& s, const In& in) {
             return s.tile_n == 16 || s.tile_n < 2 * in.problem.n || s.b.least_line();
           }),
      hint("as_wide_as_aligned", {"BYTES_A", "BYTES_B", "PACK_A", "PACK_B", "TMA"},
           "copies are as wide as the operand's alignment allows; TMA's are of 16 bytes or of an "
           "element",
           [](const Mma& s, const In& in) {
             const auto widest = [&](int alignment) {
               if (s.tma && alignment < 16) return s.element;
               return alignment >= 4 ? alignment : s.element;
             };
             return s.a.bytes == widest(reads_a_alignment(in.problem, s.pack_a)) &&
                    s.b.bytes == widest(reads_b_alignment(in.problem, s.pack_b));
           }),
      hint("lines_of_64", {"TILE_K"}, "a tile is at least 32 bytes of k deep and at most 256",
           [](const Mma& s, const In&) {
             return s.tile_k * s.element >= 32 && s.tile_k * s.element <= 256;
           }),
      hint("stages_where_async", {"STAGES"}, "more than two stages need cp.async",
           [](const Mma& s, const In& in) {
             return s.stages == 2 || has(in.device.features, Feature::cp_async);
           }),
      hint("warps_for_all", {"TILE_M", "TILE_N", "WARP_M", "WARP_N", "SLICE_K", "BLOCKS_PER_SM"},
           "a multiprocessor has at least 4 warps, a block at most 16",
           [](const Mma& s, const In&) {
             return s.threads() * s.blocks >= 128 && s.threads() <= 512;
           }),
      hint("square_warps", {"WARP_M", "WARP_N"}, "a warp's tile is at most 4 to 1",
           [](const Mma& s, const In&) {
             return s.warp_m <= 4 * s.warp_n && s.warp_n <= 4 * s.warp_m;
           }),
      hint("slices_of_small_tiles", {"TILE_M", "TILE_N", "SLICE_K"},
           "k is sliced only where a tile of C is small",
           [](const Mma& s, const In&) { return s.slice_k == 1 || s.tile_m * s.tile_n <= 8192; }),
      Common::split_needed(8),
      Common::split_has_work(),
      work_hint(
          "pack_a_pays", {"PACK_A"},
          "A is padded only when it is not aligned, transposed only when its m is contiguous and "
          "no "
          "ldmatrix reads it so, and packed only when n uses it 128 times, 32 where k is long",
          [](const Mma& s, const In& in) {
            if (s.pack_a == Pack::none) return true;
            return used_often(in.problem.n, in.problem.k) &&
                   (s.pack_a == Pack::pad ? in.problem.a.alignment < 16
                                          : in.problem.a.transposed && s.element != 2);
          },
          {"PACK_A"}),
      work_hint(
          "pack_b_pays", {"PACK_B"},
          "B is padded only when it is not aligned, transposed only when its n is contiguous and "
          "no "
          "ldmatrix reads it so, and packed only when m uses it 128 times, 32 where k is long",
          [](const Mma& s, const In& in) {
            if (s.pack_b == Pack::none) return true;
            return used_often(in.problem.m, in.problem.k) &&
                   (s.pack_b == Pack::pad ? in.problem.b.alignment < 16
                                          : !in.problem.b.transposed && s.element != 2);
          },
          {"PACK_B"}),
      hint("wide_stores", {"EPILOGUE", "VECTOR_C", "SPLIT_K"},
           "stores from shared memory are at least as wide as C's alignment, 16 bytes at most",
           [](const Mma& s, const In& in) {
             const int bytes = s.vector_c * s.out_bytes(),
                       aligned = stored_alignment(in.problem, s.split);
             return !s.epilogue || (bytes >= aligned && (bytes >= 4 || aligned < 4));
           }),
      Common::specializing_pays(),
      hint("skips_at_edges", {"SKIP_EDGE_WARPS", "TILE_M", "TILE_N"},
           "warps outside of C are skipped only where there may be some: m is no multiple of "
           "TILE_M, or n of TILE_N",
           [](const Mma& s, const In& in) {
             return s.skip_edge_warps == 0 || in.problem.m % s.tile_m != 0 ||
                    in.problem.n % s.tile_n != 0;
           }),
      Common::group_m_matters(group_m_values()),
  };
}

}  // namespace

std::vector<Parameter> parameters() {
  return {
      {"TILE_M", {16, 32, 48, 64, 80, 96, 128, 144, 160, 192, 256}, "rows of C a block computes"},
      {"TILE_N",
       {16, 32, 48, 64, 80, 96, 128, 144, 160, 192, 256},
       "columns of C a block computes"},
      {"TILE_K", {8, 16, 32, 64, 128, 256}, "depth of the tiles in shared memory"},
      {"WARP_M", {16, 32, 48, 64, 80, 96, 128}, "rows of C a warp computes"},
      {"WARP_N", {16, 32, 48, 64, 80, 96, 128}, "columns of C a warp computes"},
      {"SLICE_K", {1, 2, 4}, "sliced-K: groups of warps that share a tile's k"},
      {"STAGES", {2, 3, 4, 5, 6, 8}, "tiles in shared memory at a time"},
      {"TMA", {0, 1}, "TMA copies tiles into shared memory, else the threads", {"no", "yes"}},
      {"FRAGMENTS", {1, 2}, "sets of fragments: 2 reads the next while one is multiplied"},
      {"PROMOTE",
       {0, 1, 2, 4},
       "steps of k between additions to sums that are rounded to nearest",
       {"no", "1", "2", "4"}},
      {"BYTES_A",
       {1, 2, 4, 8, 16},
       "bytes of A copied at a time; below 4: aligned chunks, then realigned"},
      {"BYTES_B",
       {1, 2, 4, 8, 16},
       "bytes of B copied at a time; below 4: aligned chunks, then realigned"},
      {"PACK_A", {0, 1, 2}, "copy A beforehand", {"no", "padded", "transposed"}},
      {"PACK_B", {0, 1, 2}, "copy B beforehand", {"no", "padded", "transposed"}},
      {"EPILOGUE", {0, 1}, "where C is stored from", {"registers", "shared-memory"}},
      {"VECTOR_C", {1, 2, 4, 8, 16}, "elements of C a store moves"},
      {"BLOCKS_PER_SM", {1, 2, 3, 4}, "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K",
       {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128, 256},
       "blocks that share the k of a tile"},
      {"GROUP_M", group_m_values(), "tile rows whose blocks run together, for L2 (tile order)"},
      {"SPECIALIZE_SIZE", {0, 1}, "sizes are constants of the kernel", {"no", "yes"}},
      {"SKIP_EDGE_WARPS",
       {0, 1},
       "warps that lie wholly outside of C do not multiply",
       {"no", "yes"}},
  };
}

std::vector<Constraint> constraints() {
  std::vector<Constraint> all;
  for (auto* part :
       {&shape_constraints, &problem_constraints, &resource_constraints, &search_hints})
    for (Constraint& made : part()) all.push_back(std::move(made));
  return all;
}

}  // namespace tilewise::mma
