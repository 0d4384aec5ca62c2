#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tilewise/number.hpp"
#include "tuner/reference/epilogue_bounds.hpp"
#include "tuner/reference/generate.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {

/// What an epilogue makes of bounds of the sums, element by element. T: the type of its arithmetic.
/// Not thread-safe.
template <class T>
class ThroughEpilogue {
 public:
  static constexpr std::int64_t kMost = 512;  ///< elements at a time

  /// `slot`: the operand that is written or summed; none: C.
  ThroughEpilogue(const Problem& problem, std::optional<std::size_t> slot, std::uint64_t seed)
      : problem_(problem), slot_(slot), rows_(problem), bounds_(*problem.epilogue) {
    const auto& operands = problem.epilogue->operands;
    values_.resize(operands.size());
    now_.resize(operands.size());
    for (std::size_t nth = 0; nth < operands.size(); ++nth) {
      data_.emplace_back(problem, nth, seed);
      values_[nth].resize(kMost);
    }
  }

  /// Bounds of `count` neighbours of row i (counted through the batch) from column j on. low, high:
  /// of alpha op(A) op(B) + beta C; made: of what is stored, before it is rounded to its type.
  void apply(std::int64_t i, std::int64_t j, std::int64_t count, const double* low,
             const double* high, Bounds<T>* made) {
    load(i, j, count);
    for (std::int64_t e = 0; e < count; ++e) {
      for (std::size_t slot = 0; slot < now_.size(); ++slot)
        now_[slot] = values_[slot][static_cast<std::size_t>(varies(slot) ? e : 0)];
      bounds_.evaluate({outward(low[e], -1), outward(high[e], 1), false}, now_);
      made[e] = slot_ ? bounds_.operand(*slot_) : bounds_.c();
    }
  }

 private:
  /// Whether the operand has an element for each column.
  bool varies(std::size_t slot) const {
    const EpilogueOver over = problem_.epilogue->operands[slot].over;
    return over == EpilogueOver::columns || over == EpilogueOver::elements;
  }
  void load(std::int64_t i, std::int64_t j, std::int64_t count) {
    const std::int64_t product = rows_.product_of(i);
    for (std::size_t slot = 0; slot < data_.size(); ++slot) {
      const EpilogueSlot& operand = problem_.epilogue->operands[slot];
      if (operand.use != EpilogueUse::read || is_of_blocks(operand.over)) continue;
      double wide[kMost];
      const std::int64_t first = operand.over == EpilogueOver::elements  ? i * problem_.n + j
                                 : operand.over == EpilogueOver::columns ? product * problem_.n + j
                                 : operand.over == EpilogueOver::rows    ? i
                                                                         : product;
      const std::int64_t elements = varies(slot) ? count : 1;
      data_[slot].values(first, elements, wide);
      std::transform(wide, wide + elements, values_[slot].begin(),
                     [](double value) { return static_cast<T>(value); });
    }
  }
  /// The value in T's arithmetic: of a sum that T does not hold, the neighbour on that side.
  static T outward(double value, int side) {
    const T near = static_cast<T>(value);
    const bool inside =
        side < 0 ? static_cast<double>(near) > value : static_cast<double>(near) < value;
    return inside ? std::nextafter(near, side < 0 ? -std::numeric_limits<T>::infinity()
                                                  : std::numeric_limits<T>::infinity())
                  : near;
  }

  const Problem& problem_;
  std::optional<std::size_t> slot_;
  ProductRows rows_;
  EpilogueBounds<T> bounds_;
  std::vector<TestData> data_;          // by slot
  std::vector<std::vector<T>> values_;  // of the elements now judged, by slot
  std::vector<T> now_;                  // of one element
};

}  // namespace tilewise
