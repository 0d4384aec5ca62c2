#pragma once
#include <algorithm>
#include <cstdint>

#include "templates/families/small/layout.hpp"
#include "templates/space/constraints.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::small {

/// Largest m, n and k.
inline constexpr int kLargest = 64;

/// One operand of the products, in shared memory.
struct Operand {
  bool along_k;  ///< k is contiguous in memory
  int element;   ///< bytes
  int span;      ///< m (of a part) or n
  int k;
  int thread, threads;  ///< rows (columns) of a thread, and threads side by side
  int depth;            ///< FRAGMENT_K
  bool pad;
  int alignment;  ///< Problem's

  int row_bytes() const { return (along_k ? k : span) * element; }
  OperandLayout layout() const {
    return {along_k, element, span, k, thread, threads, depth, bytes(), pad};
  }
  /// Bytes of the widest copy that divides every row.
  int bytes() const {
    const int widest = std::min(alignment, common_alignment({std::uint64_t(row_bytes())}));
    return widest >= 4 ? widest : element;
  }
  bool async(const DeviceInfo& device) const {
    return bytes() >= 4 && has(device.features, Feature::cp_async);
  }
  int run() const { return layout().run(); }
  int staged(int products) const { return layout().staged(products); }
  int pieces() const { return (along_k ? span : k) * (row_bytes() / bytes()); }
  /// Reads from shared memory, a step of k.
  double reads() const { return double(thread) / run(); }
  /// Registers of the elements of one read, and of one step of k as it is multiplied.
  int registers() const {
    const int staged_steps = along_k ? depth : 1;
    return (thread * element * staged_steps + 3) / 4 + thread * (element == 8 ? 2 : 1);
  }
};

/// The configuration as plain numbers, and values derived from them.
/// Sizes of 0 count as 1; the kernel then reads no operand.
struct Small {
  bool squares;
  int parts, thread_m, thread_n, depth, unroll, products, groups, vector_c, blocks;
  int m, n, k;      ///< of a part; m rounded up where `parts` does not divide it
  int sum, result;  ///< bytes
  Operand a, b;

  Small(const Problem& problem, const Configuration& c)
      : squares(value_or_1(c, "SQUARES") != 0),
        parts(value_or_1(c, "SPLIT_M")),
        thread_m(value_or_1(c, "THREAD_M")),
        thread_n(value_or_1(c, "THREAD_N")),
        depth(value_or_1(c, "FRAGMENT_K")),
        unroll(value_or_1(c, "UNROLL")),
        products(value_or_1(c, "PRODUCTS")),
        groups(value_or_1(c, "GROUPS")),
        vector_c(value_or_1(c, "VECTOR_C")),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        m(size(layout::ceil_div(size(problem.m), parts))),
        n(size(problem.n)),
        k(size(problem.k)),
        sum(bytes_of(problem.accumulator)),
        result(bytes_of(problem.c.type)),
        a{!problem.a.transposed,       bytes_of(problem.a.type), m, k, thread_m, threads_m(), depth,
          value_or_1(c, "PAD_A") != 0, problem.a.alignment},
        b{problem.b.transposed,        bytes_of(problem.b.type), n, k, thread_n, threads_n(), depth,
          value_or_1(c, "PAD_B") != 0, problem.b.alignment} {}

  int threads_m() const { return (m + thread_m - 1) / thread_m; }
  int threads_n() const { return (n + thread_n - 1) / thread_n; }
  int product_threads() const { return threads_m() * threads_n(); }
  int group_threads() const { return small::group_threads(products, threads_m(), threads_n()); }
  int threads() const { return groups * group_threads(); }
  int shared_bytes() const { return groups * (a.staged(products) + b.staged(products)); }
  /// Columns of a thread that lie side by side.
  int neighbours_n() const { return b.along_k ? vector_c : b.run(); }
  std::int64_t in_all(const Problem& problem) const { return problem.batch * parts; }
  std::int64_t blocks_in_all(const Problem& problem) const {
    const std::int64_t of_a_block = std::int64_t{products} * groups;
    return (in_all(problem) + of_a_block - 1) / of_a_block;
  }
  int registers(const DeviceInfo&) const {
    return thread_m * thread_n * sum / 4 + a.registers() + b.registers() + 26;
  }

 private:
  static int size(std::int64_t x) {
    return static_cast<int>(std::clamp<std::int64_t>(x, 1, kLargest));
  }
};

std::vector<Parameter> parameters();
std::vector<Constraint> constraints();

}  // namespace tilewise::small
