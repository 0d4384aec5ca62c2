#pragma once
#include <vector>

#include "bench/serve/operands.hpp"
#include "matmul/executable.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::bench {

struct Statistics {
  double median = 0, spread = 0;  ///< spread: half the interquartile range over the median
};
Statistics statistics_of(std::vector<double> samples);

/// Host times per call in us: of a call as its thread sees it, the mean over threads.
struct ThreadTimes {
  int threads = 0;
  Statistics served, bare, ratio;  ///< ratio: of the two times of one round
};

/// Served products and bare launches of the same executable, from `threads` threads at once, each
/// with a stream and operands of its own. Each of `rounds` has `calls` of the one kind by every
/// thread, then as many of the other; all queues are empty before each. The threads have the kinds
/// in the same order, so they compete with their like.
ThreadTimes time_threads(Matmul& multiply, Device& device, const Problem& problem,
                         const Executable& executable, int threads, int rounds, int calls);

}  // namespace tilewise::bench
