// Integer arithmetic for the layouts of shared memory that host code and kernels share. A layout
// header includes only layout headers, since NVRTC compiles it, too.
#pragma once

namespace tilewise::layout {

constexpr int smaller(int x, int y) { return x < y ? x : y; }
constexpr int larger(int x, int y) { return x < y ? y : x; }
constexpr int ceil_div(int x, int by) { return (x + by - 1) / by; }
constexpr int round_up(int x, int to) { return ceil_div(x, to) * to; }

// Whether TMA can read a matrix at this address, whose elements have `bytes` bytes, with so many of
// them from one row to the next and from one product of a batch to the next (0: all have the same
// matrix, or there is no batch).
constexpr bool is_for_tma(unsigned long long address, long long row, long long batch, int bytes) {
  const unsigned long long all = static_cast<unsigned long long>(row | batch);
  const unsigned long long each = static_cast<unsigned long long>(bytes);
  return (address | (all * each)) % 16 == 0 && all < (1ull << 40) / each;
}

// Bytes of the GroupTable (groups.cuh) of so many products.
constexpr long long group_table_bytes(long long groups) { return 4 * (2 * groups + 1); }

}  // namespace tilewise::layout
