#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise {

/// The values of one extent: whole numbers and intervals.
class Extents {
 public:
  /// "1..4096", "4096,14336", "1..64,4096". Throws Error(invalid_argument) with the bad item and
  /// the allowed values: whole numbers from 1 to 2^40, an interval's first not above its last.
  static Extents parse(std::string_view text);
  /// The value at a place from 0 to 1: log-uniform within an interval. An interval of d doublings
  /// has 1 + d times the share of a single number.
  std::int64_t at(double place) const;
  bool contains(std::int64_t value) const;
  std::int64_t smallest() const;
  std::int64_t largest() const;
  /// Whether every item is a single number.
  bool fixed() const;
  /// The first numbers of the items.
  std::vector<std::int64_t> numbers() const;
  /// The single numbers, and of each interval the ends and the powers of two in it. Ascending, each
  /// once.
  std::vector<std::int64_t> typical() const;
  std::string text() const;

 private:
  struct Item {
    std::int64_t first = 0, last = 0;
  };
  std::vector<Item> items_;
};

/// Sizes in some layouts.
struct SizeBlock {
  std::vector<Layout> layouts;
  Extents m, n, k;
  double weight = 1;  ///< its share of a range's points, over the sum of all

  bool contains(const Problem& problem) const;
};

/// Problems of one kind whose sizes vary.
struct SizeRange {
  Problem kind;  ///< types, math mode and batch; the rest is ignored
  std::vector<SizeBlock> blocks;

  bool contains(const Problem& problem) const;
  std::vector<Layout> layouts() const;  ///< of all blocks, each once
};

/// Points of a range. Those of a block are spread evenly in the logarithms of the sizes for any
/// number of points: an additive recurrence (M. Roberts, "The unreasonable effectiveness of
/// quasirandom sequences", 2018). Layouts take turns. In two of five rounds of the layouts, extents
/// that are not fixed are rounded to multiples of 16 elements, where the interval allows, so that
/// rows are aligned. The next point is of the block with the fewest for its weight. Deterministic
/// for a seed. Not thread-safe.
class RangePoints {
 public:
  /// Skips problems of more than `most_flops` or `most_bytes` (of A, B and C).
  RangePoints(SizeRange range, std::uint64_t seed, double most_flops, double most_bytes);
  /// The next problem without repetition; empty when no other was found.
  std::optional<Problem> next();

 private:
  struct Progress {
    std::uint64_t index = 0;  // of the recurrence
    double points = 0;
    bool ended = false;
  };
  Problem point(const SizeBlock& block, std::uint64_t index) const;
  std::optional<Problem> next_of(const SizeBlock& block, Progress& progress);

  SizeRange range_;
  double most_flops_, most_bytes_;
  double start_[3];
  std::vector<Progress> progress_;  // of each block
  std::vector<Problem> taken_;
};

}  // namespace tilewise
