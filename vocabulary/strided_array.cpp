#include "tilewise/strided_array.hpp"

#include <algorithm>
#include <utility>

namespace tilewise {
namespace {

/// Holds sums of extents, each at most kMostExtent.
__extension__ using Wide = __int128;
constexpr Wide kMostExtent = Wide{1} << 64;

/// The distance between the first and the last index of a dimension; kMostExtent where it is more.
Wide extent_of(Wide stride, std::int64_t size) {
  Wide extent = 0;
  const bool fits = !__builtin_mul_overflow(stride, Wide{size - 1}, &extent);
  return fits && extent < kMostExtent ? extent : kMostExtent;
}

/// Integers from `low` to `high`.
struct Interval {
  Wide low = 0, high = 0;
};

/// `stride` bytes times an integer from `digits`.
struct Term {
  Wide stride;  ///< above 0
  Interval digits;
};

Wide floor_of(Wide value, Wide by) { return value >= 0 ? value / by : -((-value + by - 1) / by); }
Wide ceiling_of(Wide value, Wide by) { return -floor_of(-value, by); }

/// The differences between addresses of one array and of another: a constant plus one digit of
/// each term, times its stride.
class Differences {
 public:
  /// Adds the dimensions of an array whose addresses are added or subtracted.
  void add(const StridedArray& x, bool subtracted) {
    for (int i = 0; i < x.count; ++i) {
      const StridedArray::Dim& dim = x.dims[static_cast<std::size_t>(i)];
      const Wide signed_stride = Wide{dim.stride} * x.element_bytes;
      const Wide stride = signed_stride < 0 ? -signed_stride : signed_stride;
      if (dim.size == 1 || stride == 0) continue;
      too_far_ |= extent_of(stride, dim.size) == kMostExtent;
      Interval& digits = term_of(stride).digits;
      if ((signed_stride < 0) == subtracted)
        digits.high += dim.size - 1;
      else
        digits.low -= dim.size - 1;
    }
  }
  /// Whether some difference lies in `target`; true as well where that would take many steps.
  bool reach(const Interval& target) {
    if (too_far_) return true;
    Interval all;
    for (int i = 0; i < count_; ++i) widen(all, terms_[static_cast<std::size_t>(i)]);
    if (target.low > all.high || all.low > target.high) return false;
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& x, const Term& y) { return x.stride > y.stride; });
    Interval rest;
    for (int i = count_; i-- > 0;) {
      rests_[static_cast<std::size_t>(i)] = rest;
      widen(rest, terms_[static_cast<std::size_t>(i)]);
    }
    return reach_from(0, target);
  }

 private:
  static void widen(Interval& sums, const Term& term) {
    sums.low += term.stride * term.digits.low;
    sums.high += term.stride * term.digits.high;
  }
  Term& term_of(Wide stride) {
    for (int i = 0; i < count_; ++i)
      if (Term& term = terms_[static_cast<std::size_t>(i)]; term.stride == stride) return term;
    return terms_[static_cast<std::size_t>(count_++)] = {stride, {}};
  }
  /// Of the terms from `at` on. Digits are tried for which the terms behind can still reach
  /// `target`: one to three where strides are longer than what shorter ones span.
  bool reach_from(int at, const Interval& target) {
    if (at == count_) return target.low <= 0 && 0 <= target.high;
    const auto [stride, digits] = terms_[static_cast<std::size_t>(at)];
    const Interval& rest = rests_[static_cast<std::size_t>(at)];
    const Wide first = std::max(digits.low, ceiling_of(target.low - rest.high, stride));
    const Wide last = std::min(digits.high, floor_of(target.high - rest.low, stride));
    if (last - first >= steps_) return true;
    for (Wide digit = first; digit <= last; ++digit) {
      --steps_;
      if (reach_from(at + 1, {target.low - digit * stride, target.high - digit * stride}))
        return true;
    }
    return steps_ <= 0;
  }

  std::array<Term, 2 * StridedArray::kMostDims> terms_;
  std::array<Interval, 2 * StridedArray::kMostDims> rests_;  ///< reach of the terms behind
  int count_ = 0;
  int steps_ = 64;  ///< left
  bool too_far_ = false;
};

bool is_empty(const StridedArray& x) {
  return std::any_of(x.dims.begin(), x.dims.begin() + x.count,
                     [](const StridedArray::Dim& dim) { return dim.size < 1; });
}

}  // namespace

bool share_elements(const StridedArray& x, const StridedArray& y) {
  if (is_empty(x) || is_empty(y)) return false;
  Differences differences;
  differences.add(x, false);
  differences.add(y, true);
  const Wide apart = Wide{reinterpret_cast<std::uintptr_t>(y.data)} -
                     Wide{reinterpret_cast<std::uintptr_t>(x.data)};
  return differences.reach({apart - x.element_bytes + 1, apart + y.element_bytes - 1});
}

bool has_distinct_elements(const StridedArray& x) {
  if (is_empty(x)) return true;
  std::array<std::pair<Wide, std::int64_t>, StridedArray::kMostDims> dims;  // stride, size
  auto end = dims.begin();
  for (int i = 0; i < x.count; ++i) {
    const auto [size, stride] = x.dims[static_cast<std::size_t>(i)];
    if (size > 1) *end++ = {stride < 0 ? -Wide{stride} : Wide{stride}, size};
  }
  std::sort(dims.begin(), end);
  Wide span = 1;
  for (auto dim = dims.begin(); dim != end; ++dim) {
    if (dim->first < span) return false;
    span += extent_of(dim->first, dim->second);
  }
  return true;
}

}  // namespace tilewise
