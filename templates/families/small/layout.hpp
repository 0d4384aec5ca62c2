// Where small's operands lie in shared memory: included by its kernel and by its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::small {

constexpr int odd(int x, bool wanted) { return wanted && x % 2 == 0 ? x + 1 : x; }

// An operand of a group's products.
struct OperandLayout {
  bool along_k;         // k is contiguous in memory
  int element;          // bytes
  int span, k;          // m (of a part) or n, and k
  int thread, threads;  // rows (columns) of a thread, and threads side by side
  int depth;            // steps of k that are read at a time
  int bytes;            // moved by a copy: divides every row
  bool pad;

  constexpr int rows() const { return along_k ? span : k; }
  constexpr int row_bytes() const { return (along_k ? k : span) * element; }
  // Elements read at a time: a power of two.
  constexpr int run() const {
    return layout::smaller(along_k ? depth : thread & -thread, 16 / element);
  }
  constexpr int unit() const { return layout::larger(run() * element, bytes); }
  // Bytes from row to row, from product to product.
  constexpr int pitch() const { return odd(layout::ceil_div(row_bytes(), unit()), pad) * unit(); }
  constexpr int product() const { return odd(rows() * pitch() / unit(), pad) * unit(); }
  // Threads at the edge read past the last row (or its end): those sums are not written.
  constexpr int past() const { return (threads * thread - span) * (along_k ? pitch() : element); }
  constexpr int staged(int products) const {
    return layout::round_up(products * product() + past(), 16);
  }
};

// Threads of a group, which does `products` products, each by so many threads along m and n.
constexpr int group_threads(int products, int threads_m, int threads_n) {
  return layout::round_up(products * threads_m * threads_n, 32);
}

}  // namespace tilewise::small
