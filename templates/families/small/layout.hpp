// Where small's operands lie in shared memory, in bytes: included by its kernel and its descriptor.
#pragma once
#include "parts/layout.hpp"

namespace tilewise::small {

constexpr int odd(int x, bool wanted) { return wanted && x % 2 == 0 ? x + 1 : x; }

// One operand of the products of a group of threads.
struct OperandLayout {
  bool along_k;         // k is contiguous in memory
  int element;          // bytes
  int span, k;          // m (of a part) or n, and k
  int thread, threads;  // rows (columns) of a thread, and threads side by side
  int depth;            // FRAGMENT_K: steps of k of one read
  int bytes;            // of one copy: divides every row
  bool pad;

  constexpr int rows() const { return along_k ? span : k; }
  constexpr int row_bytes() const { return (along_k ? k : span) * element; }
  // Elements of one read: a power of two, at most 16 bytes.
  constexpr int run() const {
    return layout::smaller(along_k ? depth : thread & -thread, 16 / element);
  }
  constexpr int unit() const { return layout::larger(run() * element, bytes); }
  // Bytes from row to row, and from product to product. Padded: an odd number of units.
  constexpr int pitch() const { return odd(layout::ceil_div(row_bytes(), unit()), pad) * unit(); }
  constexpr int product() const { return odd(rows() * pitch() / unit(), pad) * unit(); }
  // Bytes that threads at the edge read past the last row (or its end); their sums are not written.
  constexpr int past() const { return (threads * thread - span) * (along_k ? pitch() : element); }
  constexpr int staged(int products) const {
    return layout::round_up(products * product() + past(), 16);
  }
};

// Threads of a group that computes `products` products, each by threads_m x threads_n threads.
constexpr int group_threads(int products, int threads_m, int threads_n) {
  return layout::round_up(products * threads_m * threads_n, 32);
}

}  // namespace tilewise::small
