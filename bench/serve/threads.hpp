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

/// Host times per call in us as seen by the calling thread; means over threads.
struct ThreadTimes {
  int threads = 0;
  Statistics served, bare, ratio;  ///< ratio of the two times of one round
};

/// Served products and bare launches of the same executable, from `threads` threads at once, each
/// with its own stream and operands. In each of `rounds`, every thread makes `calls` of one kind,
/// then as many of the other; all queues are empty before each. All threads use the same order, so
/// they compete with calls of the same kind.
ThreadTimes time_threads(Matmul& multiply, Device& device, const Problem& problem,
                         const Executable& executable, int threads, int rounds, int calls);

}  // namespace tilewise::bench
