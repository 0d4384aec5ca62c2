#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace tilewise {

/// Regression by boosted trees: each is fitted to what those before leave, by least squares, on a
/// random part of the rows and of the features (Friedman, Stochastic Gradient Boosting, 2002). For
/// some thousand rows of small whole numbers: parameters of a kernel, say. Deterministic for a
/// generator's state. Reading is thread-safe.
class BoostedTrees {
 public:
  struct Row {
    std::vector<int> features;  ///< as many in all rows
    double value = 0;
    double weight = 1;  ///< over 0
  };

  /// Forgets what was fitted before. Requires at least one row.
  void fit(std::span<const Row> rows, std::mt19937_64& generator);
  bool fitted() const { return !roots_.empty(); }
  /// Requires fitted(), and as many features as the rows had.
  double operator()(const std::vector<int>& features) const;

 private:
  struct Node {
    int feature = -1;  ///< -1: a leaf
    int limit = 0;     ///< up to here it goes left
    std::size_t left = 0, right = 0;
    double value = 0;
  };
  struct Growing;
  struct Split {
    int feature = -1;
    std::size_t rank = 0;  ///< the last of the feature's values that goes left
  };
  std::size_t grow(Growing& growing, std::span<std::size_t> rows, int depth);
  static Split best_split(const Growing& growing, std::span<const std::size_t> rows);
  double leaf_of(std::size_t node, const std::vector<int>& features) const;

  double mean_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::size_t> roots_;
};

}  // namespace tilewise
