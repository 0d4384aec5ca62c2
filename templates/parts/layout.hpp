// Integer arithmetic for the layouts of shared memory that host code and kernels share. A layout
// header includes only layout headers, since NVRTC compiles it, too.
#pragma once

namespace tilewise::layout {

constexpr int smaller(int x, int y) { return x < y ? x : y; }
constexpr int larger(int x, int y) { return x < y ? y : x; }
constexpr int ceil_div(int x, int by) { return (x + by - 1) / by; }
constexpr int round_up(int x, int to) { return ceil_div(x, to) * to; }

}  // namespace tilewise::layout
