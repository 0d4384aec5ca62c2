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
  std::string text() const;

 private:
  struct Item {
    std::int64_t first = 0, last = 0;
  };
  std::vector<Item> items_;
};

/// Problems of one kind whose sizes vary.
struct SizeRange {
  Problem kind;  ///< types, math mode and batch; the rest is ignored
  std::vector<Layout> layouts;
  Extents m, n, k;

  bool contains(const Problem& problem) const;
};

/// Points of a range, spread evenly in the logarithms of the sizes for any number of points: an
/// additive recurrence (M. Roberts, "The unreasonable effectiveness of quasirandom sequences",
/// 2018). Layouts take turns. In two of five rounds of the layouts, extents that are not fixed are
/// rounded to multiples of 16 elements, where the interval allows, so that rows are aligned.
/// Deterministic for a seed. Not thread-safe.
class RangePoints {
 public:
  /// Skips problems of more than `most_flops` or `most_bytes` (of A, B and C).
  RangePoints(SizeRange range, std::uint64_t seed, double most_flops, double most_bytes);
  /// The next problem without repetition; empty when no other was found.
  std::optional<Problem> next();

 private:
  Problem point(std::uint64_t index) const;

  SizeRange range_;
  double most_flops_, most_bytes_;
  double start_[3];
  std::uint64_t index_ = 0;
  std::vector<Problem> taken_;
};

}  // namespace tilewise
