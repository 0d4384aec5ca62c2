#include <algorithm>

#include "templates/descriptors.hpp"
#include "templates/multiply_plan.hpp"

namespace tilewise {
namespace {

/// A parameter that a partial configuration lacks counts as 1: no constraint that is asked reads
/// it.
int value(const Configuration& c, std::string_view name) {
  const int* found = c.find(name);
  return found ? *found : 1;
}

/// The configuration as plain numbers, and what follows from them; the same arithmetic as simt.cu.
struct Simt {
  int tile_m, tile_n, tile_k, thread_m, thread_n, warp_m, unroll;
  bool transpose_a, transpose_b;
  Pack pack_a, pack_b;
  int prefetch, vector_a, vector_b, vector_c, blocks, split, raster;
  bool a_along_k, b_along_k;  // k is contiguous in memory, as the kernel reads the operand

  Simt(const Problem& problem, const Configuration& c)
      : tile_m(value(c, "TILE_M")),
        tile_n(value(c, "TILE_N")),
        tile_k(value(c, "TILE_K")),
        thread_m(value(c, "THREAD_M")),
        thread_n(value(c, "THREAD_N")),
        warp_m(value(c, "WARP_M")),
        unroll(value(c, "UNROLL")),
        transpose_a(value(c, "TRANSPOSE_A") != 0),
        transpose_b(value(c, "TRANSPOSE_B") != 0),
        pack_a(Pack(value(c, "PACK_A"))),
        pack_b(Pack(value(c, "PACK_B"))),
        prefetch(value(c, "PREFETCH")),
        vector_a(value(c, "VECTOR_A")),
        vector_b(value(c, "VECTOR_B")),
        vector_c(value(c, "VECTOR_C")),
        blocks(value(c, "BLOCKS_PER_SM")),
        split(value(c, "SPLIT_K")),
        raster(value(c, "RASTER")),
        a_along_k(!reads_a_transposed(problem, pack_a)),
        b_along_k(reads_b_transposed(problem, pack_b)) {}

  int threads() const { return (tile_m / thread_m) * (tile_n / thread_n); }
  int stages() const { return prefetch >= 3 ? prefetch - 1 : (prefetch == 2 ? 2 : 1); }
  bool a_held_k() const { return a_along_k != transpose_a; }
  bool b_held_k() const { return b_along_k != transpose_b; }

  int tile_elements(int span, int vector, bool held_k, bool transpose) const {
    const int pad = held_k ? (transpose ? 1 : vector) : (transpose ? 4 : 0);
    const int elements = held_k ? span * (tile_k + pad) : tile_k * (span + pad);
    return (elements + 3) / 4 * 4;
  }
  std::uint32_t shared_bytes() const {
    return static_cast<std::uint32_t>(4 * stages() *
                                      (tile_elements(tile_m, vector_a, a_held_k(), transpose_a) +
                                       tile_elements(tile_n, vector_b, b_held_k(), transpose_b)));
  }
  /// Elements a thread fetches of a tile, in whole vectors.
  int fetched(int span, int vector) const {
    return (span * tile_k / vector + threads() - 1) / threads() * vector;
  }
  /// Sums, two sets of fragments, what is on its way, and addresses.
  int registers() const {
    const int fetch =
        prefetch == 0 || prefetch >= 3 ? 0 : fetched(tile_m, vector_a) + fetched(tile_n, vector_b);
    return thread_m * thread_n + 2 * (thread_m + thread_n) + fetch + 24;
  }
};

using In = ConstraintInput;
using Test = std::function<bool(const Simt&, const In&)>;

/// A constraint over the numbers of a configuration. While a partial configuration is looked at,
/// the parameters it does not read may be anything.
Constraint constraint(std::string name, std::vector<std::string> reads, std::string text,
                      Test test) {
  return {std::move(name), std::move(reads), std::move(text),
          [test = std::move(test)](const In& in) {
            return test(Simt(in.problem, in.configuration), in);
          }};
}

Constraint hint(std::string name, std::vector<std::string> reads, std::string text, Test test) {
  Constraint made = constraint(std::move(name), std::move(reads), std::move(text), std::move(test));
  made.for_search_only = true;
  return made;
}

std::vector<Parameter> parameters() {
  return {
      {"TILE_M", {16, 32, 64, 128, 256}, "rows of C a block computes"},
      {"TILE_N", {16, 32, 64, 128, 256}, "columns of C a block computes"},
      {"TILE_K", {8, 16, 32}, "depth of the tiles in shared memory"},
      {"THREAD_M", {1, 2, 4, 8, 16}, "rows of C a thread computes"},
      {"THREAD_N", {1, 2, 4, 8, 16}, "columns of C a thread computes"},
      {"WARP_M", {2, 4, 8, 16}, "threads of a warp along m; 32 / WARP_M along n"},
      {"UNROLL", {1, 2, 4, 8, 16, 32}, "steps of the tile's k a loop pass does"},
      {"TRANSPOSE_A", {0, 1}, "turn A's tile on its way into shared memory", {"no", "yes"}},
      {"TRANSPOSE_B", {0, 1}, "turn B's tile on its way into shared memory", {"no", "yes"}},
      {"PACK_A", {0, 1, 2}, "copy A beforehand", {"no", "padded", "transposed"}},
      {"PACK_B", {0, 1, 2}, "copy B beforehand", {"no", "padded", "transposed"}},
      {"PREFETCH",
       {0, 1, 2, 3, 4, 5},
       "how the next tile is fetched while this one is used",
       {"none", "registers", "double buffer", "cp.async 2 stages", "cp.async 3 stages",
        "cp.async 4 stages"}},
      {"VECTOR_A", {1, 2, 4}, "elements of A a load moves"},
      {"VECTOR_B", {1, 2, 4}, "elements of B a load moves"},
      {"VECTOR_C", {1, 2, 4}, "elements of C a store moves"},
      {"BLOCKS_PER_SM", {1, 2, 3, 4}, "blocks that must fit on a multiprocessor: caps registers"},
      {"SPLIT_K", {1, 2, 4, 8, 16, 32, 64}, "blocks that share the k of a tile"},
      {"RASTER", {1, 4, 8, 16}, "tile rows walked together, for L2"},
      {"FMA_ORDER", {0, 1, 2}, "order of the multiply-adds", {"rows", "serpentine", "row pairs"}},
  };
}

std::vector<Constraint> shape_constraints() {
  return {
      constraint("warps_tile_m", {"TILE_M", "THREAD_M", "WARP_M"},
                 "TILE_M is a multiple of THREAD_M x WARP_M",
                 [](const Simt& s, const In&) { return s.tile_m % (s.thread_m * s.warp_m) == 0; }),
      constraint(
          "warps_tile_n", {"TILE_N", "THREAD_N", "WARP_M"},
          "TILE_N is a multiple of THREAD_N x 32 / WARP_M",
          [](const Simt& s, const In&) { return s.tile_n % (s.thread_n * (32 / s.warp_m)) == 0; }),
      constraint(
          "block_size", {"TILE_M", "TILE_N", "THREAD_M", "THREAD_N"},
          "a block has at most 1024 threads",
          [](const Simt& s, const In& in) { return s.threads() <= in.device.threads_per_block; }),
      constraint("unroll_divides", {"TILE_K", "UNROLL"}, "UNROLL divides TILE_K",
                 [](const Simt& s, const In&) { return s.tile_k % s.unroll == 0; }),
      constraint("store_run", {"TRANSPOSE_B", "PACK_B", "THREAD_N", "VECTOR_C"},
                 "VECTOR_C is no wider than a thread's run of columns: 1 where B is held with k "
                 "contiguous, else at most 4 and THREAD_N",
                 [](const Simt& s, const In&) {
                   return s.vector_c <= (s.b_held_k() ? 1 : std::min(4, s.thread_n));
                 }),
      constraint("has_cp_async", {"PREFETCH"}, "PREFETCH by cp.async needs the feature cp_async",
                 [](const Simt& s, const In& in) {
                   return s.prefetch < 3 || has(in.device.features, Feature::cp_async);
                 }),
      constraint("cp_async_turns_words", {"PREFETCH", "TRANSPOSE_A", "VECTOR_A"},
                 "cp.async turns A word by word: VECTOR_A is 1",
                 [](const Simt& s, const In&) {
                   return s.prefetch < 3 || !s.transpose_a || s.vector_a == 1;
                 }),
      constraint("cp_async_turns_words_b", {"PREFETCH", "TRANSPOSE_B", "VECTOR_B"},
                 "cp.async turns B word by word: VECTOR_B is 1",
                 [](const Simt& s, const In&) {
                   return s.prefetch < 3 || !s.transpose_b || s.vector_b == 1;
                 }),
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
      constraint("aligned_c", {"VECTOR_C", "SPLIT_K"},
                 "VECTOR_C x 4 bytes is no more than C's alignment; partial sums have rows of n",
                 [](const Simt& s, const In& in) {
                   return s.split > 1 ? in.problem.n % s.vector_c == 0
                                      : s.vector_c * 4 <= in.problem.alignment.c;
                 }),
      constraint("grid_fits", {"TILE_M", "TILE_N", "TILE_K", "SPLIT_K"},
                 "there are fewer than 2^31 blocks and 2^31 tiles of k",
                 [](const Simt& s, const In& in) {
                   return grid_fits(in.problem, s.tile_m, s.tile_n, s.tile_k, s.split);
                 }),
  };
}

std::vector<Constraint> resource_constraints() {
  return {
      constraint("shared_fits",
                 {"TILE_M", "TILE_N", "TILE_K", "TRANSPOSE_A", "TRANSPOSE_B", "PACK_A", "PACK_B",
                  "PREFETCH", "VECTOR_A", "VECTOR_B", "BLOCKS_PER_SM"},
                 "the stages of BLOCKS_PER_SM blocks fit into shared memory",
                 [](const Simt& s, const In& in) {
                   const int bytes = static_cast<int>(s.shared_bytes());
                   return bytes <= in.device.shared_per_block &&
                          (bytes + in.device.shared_reserved_per_block) * s.blocks <=
                              in.device.shared_per_multiprocessor;
                 }),
      constraint("threads_resident", {"TILE_M", "TILE_N", "THREAD_M", "THREAD_N", "BLOCKS_PER_SM"},
                 "BLOCKS_PER_SM blocks are no more threads than a multiprocessor holds",
                 [](const Simt& s, const In& in) {
                   return s.threads() * s.blocks <= in.device.threads_per_multiprocessor;
                 }),
      constraint("registers_fit",
                 {"TILE_M", "TILE_N", "TILE_K", "THREAD_M", "THREAD_N", "PREFETCH", "VECTOR_A",
                  "VECTOR_B", "BLOCKS_PER_SM"},
                 "THREAD_M x THREAD_N sums, fragments and fetched elements fit the registers that "
                 "BLOCKS_PER_SM leaves a thread (at most 255)",
                 [](const Simt& s, const In& in) {
                   const int share =
                       in.device.registers_per_multiprocessor / (s.threads() * s.blocks) / 8 * 8;
                   return s.registers() <= std::min(255, share);
                 }),
  };
}

std::vector<Constraint> search_hints() {
  return {
      hint("tile_m_used", {"TILE_M"}, "TILE_M is less than twice m (or the smallest)",
           [](const Simt& s, const In& in) {
             return s.tile_m == 16 || s.tile_m < 2 * in.problem.m;
           }),
      hint("tile_n_used", {"TILE_N"}, "TILE_N is less than twice n (or the smallest)",
           [](const Simt& s, const In& in) {
             return s.tile_n == 16 || s.tile_n < 2 * in.problem.n;
           }),
      hint("enough_reuse", {"THREAD_M", "THREAD_N"},
           "a thread does at least two multiply-adds for each value it reads, or m or n is small",
           [](const Simt& s, const In& in) {
             return std::min(in.problem.m, in.problem.n) < 64 ||
                    s.thread_m * s.thread_n >= 2 * (s.thread_m + s.thread_n) ||
                    s.thread_m * s.thread_n >= 16;
           }),
      hint("split_needed", {"TILE_M", "TILE_N", "SPLIT_K"},
           "k is split only where tiles alone leave multiprocessors idle",
           [](const Simt& s, const In& in) {
             const double tiles = double(in.problem.m + s.tile_m - 1) / s.tile_m *
                                  (double(in.problem.n + s.tile_n - 1) / s.tile_n);
             return s.split == 1 || tiles * s.split <= 16.0 * in.device.multiprocessors;
           }),
      hint("split_has_work", {"TILE_K", "SPLIT_K"}, "each part of k has at least four tiles",
           [](const Simt& s, const In& in) {
             return s.split == 1 || in.problem.k >= std::int64_t{4} * s.split * s.tile_k;
           }),
      hint("pack_a_pays", {"PACK_A"},
           "A is padded only when it is not aligned, and packed only when n uses it 256 times",
           [](const Simt& s, const In& in) {
             return s.pack_a == Pack::none ||
                    (in.problem.n >= 256 && (s.pack_a != Pack::pad || in.problem.alignment.a < 16));
           }),
      hint("pack_b_pays", {"PACK_B"},
           "B is padded only when it is not aligned, and packed only when m uses it 256 times",
           [](const Simt& s, const In& in) {
             return s.pack_b == Pack::none ||
                    (in.problem.m >= 256 && (s.pack_b != Pack::pad || in.problem.alignment.b < 16));
           }),
      hint("order_matters", {"THREAD_M", "FMA_ORDER"},
           "serpentine needs two rows, row pairs two pairs",
           [](const Simt& s, const In& in) {
             const int order = value(in.configuration, "FMA_ORDER");
             return order == 0 || s.thread_m >= 2 * order;
           }),
      hint("raster_matters", {"TILE_M", "RASTER"}, "RASTER is no more than the tile rows there are",
           [](const Simt& s, const In& in) {
             return s.raster == 1 || std::int64_t{s.raster} * s.tile_m < in.problem.m + s.tile_m;
           }),
  };
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo&) {
  const Simt s(problem, c);
  MultiplyShape shape;
  shape.kernel = {"simt.cu", "simt", {}};
  for (const char* name : {"TILE_M", "TILE_N", "TILE_K", "THREAD_M", "THREAD_N", "WARP_M", "UNROLL",
                           "TRANSPOSE_A", "TRANSPOSE_B", "PREFETCH", "VECTOR_A", "VECTOR_B",
                           "VECTOR_C", "BLOCKS_PER_SM", "FMA_ORDER"})
    shape.kernel.defines.emplace_back(name, c.at(name));
  shape.kernel.defines.emplace_back("SPLIT", s.split > 1);
  shape.tile_m = s.tile_m;
  shape.tile_n = s.tile_n;
  shape.tile_k = s.tile_k;
  shape.threads = s.threads();
  shape.shared_bytes = s.shared_bytes();
  shape.splits = s.split;
  shape.raster = s.raster;
  shape.pack_a = s.pack_a;
  shape.pack_b = s.pack_b;
  shape.shared_bytes_per_flop = 4.0 * (s.thread_m + s.thread_n) / (2.0 * s.thread_m * s.thread_n);
  return multiply_plan(problem, std::move(shape));
}

/// Held so that fragments are read as vectors, element-wise memory access: right for any alignment.
Configuration default_configuration(const Problem& problem, const DeviceInfo&) {
  return {{"TILE_M", 64},
          {"TILE_N", 64},
          {"TILE_K", 16},
          {"THREAD_M", 8},
          {"THREAD_N", 4},
          {"WARP_M", 4},
          {"UNROLL", 16},
          {"TRANSPOSE_A", a_transposed(problem.layout) ? 0 : 1},
          {"TRANSPOSE_B", b_transposed(problem.layout) ? 1 : 0},
          {"PACK_A", 0},
          {"PACK_B", 0},
          {"PREFETCH", 2},
          {"VECTOR_A", 1},
          {"VECTOR_B", 1},
          {"VECTOR_C", 1},
          {"BLOCKS_PER_SM", 2},
          {"SPLIT_K", 1},
          {"RASTER", 8},
          {"FMA_ORDER", 1}};
}

}  // namespace

KernelTemplate simt_template() {
  KernelTemplate t;
  t.name = "simt";
  t.summary = "register tile a thread, outer product, on the ordinary units";
  t.parameters = parameters();
  for (auto* part :
       {&shape_constraints, &problem_constraints, &resource_constraints, &search_hints})
    for (Constraint& c : part()) t.constraints.push_back(std::move(c));
  t.supports = supports_strict_f32;
  t.plan = plan;
  t.default_configuration = default_configuration;
  return t;
}

}  // namespace tilewise
