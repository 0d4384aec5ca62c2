#include "tilewise/strided_array.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tilewise {
namespace {

/// Holds differences of addresses times small numbers.
__extension__ using Wide = __int128;

/// The addresses of an array's first and last byte; empty for numbers beyond any memory.
struct Addresses {
  std::uint64_t first, last;
};
std::optional<Addresses> addresses_of(const StridedArray& x) {
  std::int64_t low = 0, high = 0;  // elements, then bytes
  bool beyond = false;
  for (int i = 0; i < x.count; ++i) {
    const auto [size, stride] = x.dims[static_cast<std::size_t>(i)];
    std::int64_t extent = 0;
    beyond |= __builtin_mul_overflow(stride, size - 1, &extent);
    std::int64_t& end = extent < 0 ? low : high;
    beyond |= __builtin_add_overflow(end, extent, &end);
  }
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(x.data));
  Addresses all{};
  beyond |= __builtin_mul_overflow(low, x.element_bytes, &low) ||
            __builtin_mul_overflow(high, x.element_bytes, &high) ||
            __builtin_add_overflow(high, x.element_bytes - 1, &high) ||
            __builtin_add_overflow(address, low, &all.first) ||
            __builtin_add_overflow(address, high, &all.last);
  return beyond ? std::nullopt : std::optional(all);
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

/// The differences between addresses of two arrays: a constant plus one digit of each term, times
/// its stride.
class Differences {
 public:
  /// Adds the dimensions of an array whose addresses are added or subtracted.
  void add(const StridedArray& x, bool subtracted) {
    for (int i = 0; i < x.count; ++i) {
      const StridedArray::Dim& dim = x.dims[static_cast<std::size_t>(i)];
      const Wide signed_stride = Wide{dim.stride} * x.element_bytes;
      const Wide stride = signed_stride < 0 ? -signed_stride : signed_stride;
      if (dim.size == 1 || stride == 0) continue;
      Interval& digits = term_of(stride).digits;
      if ((signed_stride < 0) == subtracted)
        digits.high += dim.size - 1;
      else
        digits.low -= dim.size - 1;
    }
  }
  /// Whether some difference is in `target`; also true if a decision would take many steps.
  bool reach(const Interval& target) {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& x, const Term& y) { return x.stride > y.stride; });
    Interval rest;
    for (int i = count_; i-- > 0;) {
      const auto& [stride, digits] = terms_[static_cast<std::size_t>(i)];
      rests_[static_cast<std::size_t>(i)] = rest;
      rest.low += stride * digits.low;
      rest.high += stride * digits.high;
    }
    return reach_from(0, target);
  }

 private:
  Term& term_of(Wide stride) {
    for (int i = 0; i < count_; ++i)
      if (Term& term = terms_[static_cast<std::size_t>(i)]; term.stride == stride) return term;
    return terms_[static_cast<std::size_t>(count_++)] = {stride, {}};
  }
  /// The same for the terms from `at` on. Tries the digits for which later terms can still reach
  /// `target`: one to three where strides exceed the span of shorter ones.
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
  std::array<Interval, 2 * StridedArray::kMostDims> rests_;  ///< reach of the later terms
  int count_ = 0;
  int steps_ = 64;  ///< steps left
};

bool is_empty(const StridedArray& x) {
  return std::any_of(x.dims.begin(), x.dims.begin() + x.count,
                     [](const StridedArray::Dim& dim) { return dim.size < 1; });
}

/// A separate function, which keeps the code for arrays in separate memory short.
[[gnu::noinline]] bool some_difference_is_0(const StridedArray& x, const StridedArray& y) {
  Differences differences;
  differences.add(x, false);
  differences.add(y, true);
  const Wide apart = Wide{reinterpret_cast<std::uintptr_t>(y.data)} -
                     Wide{reinterpret_cast<std::uintptr_t>(x.data)};
  return differences.reach({apart - x.element_bytes + 1, apart + y.element_bytes - 1});
}

}  // namespace

bool share_elements(const StridedArray& x, const StridedArray& y) {
  if (is_empty(x) || is_empty(y)) return false;
  const std::optional<Addresses> of_x = addresses_of(x), of_y = addresses_of(y);
  if (!of_x || !of_y) return true;
  const bool apart = of_x->last < of_y->first || of_y->last < of_x->first;
  return !apart && some_difference_is_0(x, y);
}

bool has_distinct_elements(const StridedArray& x) {
  if (is_empty(x)) return true;
  std::array<std::pair<std::uint64_t, std::uint64_t>, StridedArray::kMostDims> dims;
  auto end = dims.begin();
  for (int i = 0; i < x.count; ++i) {
    const auto [size, stride] = x.dims[static_cast<std::size_t>(i)];
    const auto length = static_cast<std::uint64_t>(stride);
    if (size > 1) *end++ = {stride < 0 ? -length : length, static_cast<std::uint64_t>(size - 1)};
  }
  std::sort(dims.begin(), end);
  std::uint64_t span = 1;
  for (auto dim = dims.begin(); dim != end; ++dim) {
    const auto [stride, steps] = *dim;
    if (stride < span) return false;
    std::uint64_t extent = 0;
    if (__builtin_mul_overflow(stride, steps, &extent) ||
        __builtin_add_overflow(span, extent, &span))
      span = std::numeric_limits<std::uint64_t>::max();  // a longer stride is impossible
  }
  return true;
}

}  // namespace tilewise
