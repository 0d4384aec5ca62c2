#pragma once
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "matmul/boosted_trees.hpp"
#include "tuner/search/ordered.hpp"

namespace tilewise {

/// The cost model corrected by measurements: learns, from the parameters of each template's
/// candidates, the factor by which the prediction is wrong. With a constant as the prediction it
/// learns the time. Fast candidates have the largest weight. Deterministic for an order of results
/// and a generator's state. Not thread-safe.
class TreeRanker {
 public:
  explicit TreeRanker(Predict predict) : predict_(std::move(predict)) {}

  /// Ignores candidates without a prediction.
  void observe(const Candidate& candidate, double microseconds);
  /// Whether there are enough results to learn from.
  bool ready() const;
  /// Fits again when there are enough new results.
  void refresh(std::mt19937_64& generator);
  /// The expected time in seconds as of the last refresh(); infinity without a prediction.
  double seconds(const Candidate& candidate) const;
  /// One of the fastest measured, at random. Requires ready().
  const Candidate& fast_one(std::mt19937_64& generator) const;

 private:
  struct Kernel {
    std::vector<BoostedTrees::Row> rows;  // value: the logarithm of measured over predicted
    std::vector<double> microseconds;
    double sum = 0;  // of the rows' values
    std::size_t fitted = 0;
    BoostedTrees trees;
  };

  Predict predict_;
  std::map<std::string, Kernel> kernels_;  // by template
  std::size_t results_ = 0;
  double sum_ = 0;
  std::multimap<double, Candidate> fastest_;  // by microseconds
};

}  // namespace tilewise
