#pragma once
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tuner/search/boosted_trees.hpp"
#include "tuner/search/ordered.hpp"

namespace tilewise {

/// The cost model, put right by what was measured: learns, from the parameters of each template's
/// candidates, by what factor it is wrong. Fast candidates count most: it is for telling these
/// apart. Deterministic for an order of results and a generator's state. Not thread-safe.
class LearnedModel {
 public:
  explicit LearnedModel(Predict predict) : predict_(std::move(predict)) {}

  /// Ignored where the cost model cannot tell.
  void observe(const Candidate& candidate, double microseconds);
  /// Whether there is enough to learn from.
  bool ready() const;
  /// Learns again when enough is new.
  void refresh(std::mt19937_64& generator);
  /// What a candidate is expected to take, as of the last refresh(); infinity where that cannot be
  /// told.
  double seconds(const Candidate& candidate) const;
  /// One of the fastest measured. Requires ready().
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
