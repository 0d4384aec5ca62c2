#pragma once
#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace tilewise {

/// Regression by boosted trees (Friedman, Stochastic Gradient Boosting, 2002). Each tree is fitted
/// by least squares to the residuals of the trees before it, on a random share of the rows and of
/// the features. Made for some thousand rows of small whole numbers, such as a kernel's parameters.
/// A fit is deterministic for a generator's state. Prediction is thread-safe.
class BoostedTrees {
 public:
  struct Row {
    std::vector<int> features;  ///< one length in all rows
    double value = 0;
    double weight = 1;  ///< above 0
  };

  struct Options {
    int trees = 120;
    int depth = 4;
    std::size_t least_rows = 3;  ///< rows in a leaf, at least
    double row_share = 0.8, feature_share = 0.6;
  };

  /// Discards the previous fit. Requires at least one row.
  void fit(std::span<const Row> rows, std::mt19937_64& generator, const Options& options);
  void fit(std::span<const Row> rows, std::mt19937_64& generator) { fit(rows, generator, {}); }
  bool fitted() const { return !roots_.empty(); }
  /// The predicted value. Requires fitted() and as many features as the rows have.
  double operator()(const std::vector<int>& features) const;

  /// The fit as bytes. Requires fewer than 255 features with values of 16 bits, and trees of fewer
  /// than 65,536 nodes.
  std::vector<std::uint8_t> to_bytes() const;
  /// The inverse of to_bytes(). Throws Error(invalid_argument) if the bytes are not trees over
  /// `features` features.
  static BoostedTrees from_bytes(std::span<const std::uint8_t> bytes, std::size_t features);

 private:
  /// Eight bytes, because a prediction visits about a thousand nodes.
  struct Node {
    static constexpr std::uint8_t kLeaf = 0xff;
    std::int32_t limit = 0;   ///< values up to this limit go left, to the next node
    std::uint16_t right = 0;  ///< distance to the right node, which comes later
    std::uint8_t feature = kLeaf;
    bool is_leaf() const { return feature == kLeaf; }
    float value() const { return std::bit_cast<float>(limit); }  ///< value of a leaf
    /// The value is rounded to the 16 bits that to_bytes() stores: 8 of the fraction.
    static Node leaf(double value);
  };
  struct Growing;
  struct Split {
    int feature = -1;
    std::size_t rank = 0;  ///< index of the largest value that goes left
  };
  std::size_t grow(Growing& growing, std::span<std::size_t> rows, int depth);
  static Split best_split(const Growing& growing, std::span<const std::size_t> rows);
  double leaf_of(std::size_t node, const std::vector<int>& features) const;

  double mean_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> roots_;
};

}  // namespace tilewise
