#pragma once
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "matmul/boosted_trees.hpp"
#include "tuner/search/ordered.hpp"

namespace tilewise {

/// Corrects the cost model by measurements: learns the prediction's error factor from the
/// parameters of each template's candidates. With a constant as the prediction it learns the time.
/// Fast candidates have the largest weight. Deterministic for an order of results and a generator's
/// state. Not thread-safe.
class TreeRanker {
 public:
  explicit TreeRanker(Predict predict) : predict_(std::move(predict)) {}

  /// Ignores candidates without a prediction.
  void observe(const Candidate& candidate, double microseconds);
  /// Whether there are enough results to learn from.
  bool ready() const;
  /// Fits again when there are enough new results.
  void refresh(std::mt19937_64& generator);
  /// The expected time in seconds at the last refresh(); infinity without a prediction.
  double seconds(const Candidate& candidate) const;
  /// A random one of the fastest measured candidates. Requires ready().
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
