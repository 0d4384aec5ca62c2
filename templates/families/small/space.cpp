#include "templates/families/small/numbers.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/space/common_constraints.hpp"

namespace tilewise::small {
namespace {

using In = ConstraintInput;
using Common = CommonConstraints<Small>;
constexpr auto constraint = Common::constraint;
constexpr auto hint = Common::hint;

std::vector<Constraint> shape_constraints() {
  return {
      constraint("parts_divide_m", {"SPLIT_M"}, "SPLIT_M divides m",
                 [](const Small& s, const In& in) { return in.problem.m % s.parts == 0; }),
      constraint("several_are_whole", {"SPLIT_M", "PRODUCTS"},
                 "SPLIT_M is 1 where PRODUCTS is more than 1",
                 [](const Small& s, const In&) { return s.parts == 1 || s.products == 1; }),
      constraint("squares_are_whole", {"SPLIT_M", "THREAD_M", "THREAD_N", "SQUARES"},
                 "SQUARES needs an even number of a product's threads along m and along n",
                 [](const Small& s, const In&) {
                   return !s.squares || (s.threads_m() % 2 == 0 && s.threads_n() % 2 == 0);
                 }),
      constraint("depth_divides_k", {"FRAGMENT_K"}, "FRAGMENT_K divides k",
                 [](const Small& s, const In&) { return s.k % s.depth == 0; }),
      constraint(
          "group_is_warp_or_block", {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS"},
          "where a block has several GROUPS, each is one warp",
          [](const Small& s, const In&) { return s.groups == 1 || s.group_threads() == 32; }),
      Common::block_size({"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS"}),
      constraint(
          "stores_neighbours", {"THREAD_N", "VECTOR_C"},
          "VECTOR_C divides a thread's neighbouring columns: any where B's k is contiguous, else "
          "the columns of one read (16 bytes at most)",
          [](const Small& s, const In&) {
            return s.thread_n % s.vector_c == 0 && s.neighbours_n() % s.vector_c == 0;
          }),
      constraint("aligned_c", {"VECTOR_C"},
                 "VECTOR_C divides n; its elements are no more bytes than C's alignment",
                 [](const Small& s, const In& in) {
                   return s.n % s.vector_c == 0 && s.vector_c * s.result <= in.problem.c.alignment;
                 }),
      constraint(
          "grid_fits", {"SPLIT_M"}, "there are fewer than 2^31 parts of products",
          [](const Small& s, const In& in) { return grid_fits(in.problem, s.m, s.n, 1, 1); }),
  };
}

std::vector<Constraint> resource_constraints() {
  return {
      Common::shared_fits({"SPLIT_M", "THREAD_M", "THREAD_N", "FRAGMENT_K", "PRODUCTS", "GROUPS",
                           "PAD_A", "PAD_B", "BLOCKS_PER_SM"},
                          "the operands of BLOCKS_PER_SM blocks"),
      Common::threads_resident(
          {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS", "BLOCKS_PER_SM"}),
      Common::registers_fit(
          {"SPLIT_M", "THREAD_M", "THREAD_N", "FRAGMENT_K", "PRODUCTS", "GROUPS", "BLOCKS_PER_SM"},
          "sums and fragments"),
  };
}

std::vector<Constraint> search_hints() {
  return {
      hint("tile_used", {"SPLIT_M", "THREAD_M", "THREAD_N"},
           "the sums of all threads are at most a third more than there are results (or twice as "
           "many where threads have at most two each way); THREAD_M 3 and 6 divide the rows",
           [](const Small& s, const In&) {
             const int sums = s.threads_m() * s.thread_m * s.threads_n() * s.thread_n;
             const bool tiny = s.thread_m <= 2 && s.thread_n <= 2;
             return sums * 3 <= s.m * s.n * (tiny ? 6 : 4) &&
                    (s.thread_m % 3 != 0 || s.m % s.thread_m == 0);
           }),
      hint("threads_have_products", {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS"},
           "at most an eighth of a group's threads has no product",
           [](const Small& s, const In&) {
             return s.products * s.product_threads() * 8 >= s.group_threads() * 7 ||
                    s.group_threads() == 32;
           }),
      hint("blocks_are_small", {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS"},
           "a block has at most 512 threads; more than 256 only for one product",
           [](const Small& s, const In&) {
             return s.threads() <= 256 || (s.threads() <= 512 && s.products == 1);
           }),
      hint("products_there", {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS"},
           "blocks have so few products that each multiprocessor has a block",
           [](const Small& s, const In& in) {
             const std::int64_t of_a_block = std::int64_t{s.products} * s.groups;
             return of_a_block == 1 ||
                    s.in_all(in.problem) >= of_a_block * in.device.multiprocessors ||
                    of_a_block * s.product_threads() <= 128;
           }),
      hint("parts_needed", {"SPLIT_M"}, "products are cut only where there are few",
           [](const Small& s, const In& in) {
             return s.parts == 1 || in.problem.batch <= 8 * in.device.multiprocessors;
           }),
      hint("reads_at_a_time", {"THREAD_M", "THREAD_N", "FRAGMENT_K"},
           "FRAGMENT_K is at most 16 bytes of k, and at least 2 where k is even and contiguous",
           [](const Small& s, const In&) {
             if (s.depth == 1) return s.k % 2 != 0 || !(s.a.along_k || s.b.along_k);
             return s.depth * s.a.element <= 16 && (s.a.along_k || s.b.along_k);
           }),
      hint("passes_are_long", {"FRAGMENT_K", "UNROLL"},
           "a pass of the loop is 8 to 32 steps of k, or all of them",
           [](const Small& s, const In&) {
             const int pass = s.unroll * s.depth;
             return pass <= s.k ? (pass >= 8 && pass <= 32) || pass == s.k
                                : s.unroll == 1 || (pass < 2 * s.k && s.k < 8);
           }),
      hint("pads_where_rows_differ", {"SPLIT_M", "THREAD_M", "THREAD_N", "PAD_A", "PAD_B"},
           "rows are padded only where k is contiguous, or where a warp has several products",
           [](const Small& s, const In&) {
             const bool several = s.product_threads() < 32;
             return (!s.a.pad || s.a.along_k || several) && (!s.b.pad || s.b.along_k || several);
           }),
      hint("wide_stores", {"THREAD_N", "VECTOR_C"},
           "where B's n is contiguous stores are as wide as the thread's columns and C allow, or "
           "half of it",
           [](const Small& s, const In& in) {
             if (s.b.along_k) return true;
             const int wider = 4 * s.vector_c;
             return s.neighbours_n() % wider != 0 || s.n % wider != 0 ||
                    wider * s.result > in.problem.c.alignment;
           }),
      hint("cap_matters",
           {"SPLIT_M", "THREAD_M", "THREAD_N", "PRODUCTS", "GROUPS", "BLOCKS_PER_SM"},
           "BLOCKS_PER_SM is 1, or leaves a thread less than 128 registers",
           [](const Small& s, const In& in) {
             return s.blocks == 1 ||
                    in.device.registers_per_multiprocessor / (s.threads() * s.blocks) < 128;
           }),
  };
}

}  // namespace

std::vector<Parameter> parameters() {
  return {
      {"THREAD_M", {1, 2, 3, 4, 6, 8}, "rows of C a thread computes"},
      {"THREAD_N", {1, 2, 4, 8}, "columns of C a thread computes"},
      {"FRAGMENT_K", {1, 2, 4, 8, 16}, "steps of k that are read at a time"},
      {"UNROLL", {1, 2, 4, 8, 16}, "reads of FRAGMENT_K steps in a pass of the loop"},
      {"SPLIT_M", {1, 2, 4}, "blocks (or groups) that share the rows of a product"},
      {"PRODUCTS",
       {1, 2, 4, 8, 16, 32},
       "products (or parts) that a group of threads does together"},
      {"GROUPS", {1, 2, 4}, "groups of a block; where there are several, each is a warp"},
      {"SQUARES",
       {0, 1},
       "neighbouring threads are two by two, else along a row of C",
       {"no", "yes"}},
      {"PAD_A", {0, 1}, "pad A's rows against bank conflicts", {"no", "yes"}},
      {"PAD_B", {0, 1}, "pad B's rows against bank conflicts", {"no", "yes"}},
      {"VECTOR_C", {1, 2, 4, 8}, "elements of C a store moves"},
      {"BLOCKS_PER_SM", {1, 4, 8, 16}, "blocks that must fit on a multiprocessor: caps registers"},
  };
}

std::vector<Constraint> constraints() {
  std::vector<Constraint> all;
  for (auto* part : {&shape_constraints, &resource_constraints, &search_hints})
    for (Constraint& made : part()) all.push_back(std::move(made));
  return all;
}

}  // namespace tilewise::small
