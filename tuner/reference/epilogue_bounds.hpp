#pragma once
#include <vector>

#include "vocabulary/epilogue.hpp"

namespace tilewise {

/// What a number may be: each number from `low` to `high`, none if low > high; and NaN, if `nan`.
/// A sign of zero is not distinguished.
template <class T>
struct Bounds {
  T low = 0, high = 0;
  bool nan = false;
  static Bounds of(T value) {
    if (value != value) return nothing();
    return {value, value, false};
  }
  /// NaN only.
  static Bounds nothing();
  bool empty() const { return !(low <= high); }
};

/// The largest error of a function of a library (exp, log, tanh, erf), in units of the last place.
/// CUDA's are documented with at most 2.
inline constexpr int kFunctionUlps = 4;

/// The bounds of an epilogue's values in T's arithmetic (float or double) by interval arithmetic.
/// Operators of IEEE 754 are monotonic, so that bounds of exact arguments are exact; functions of a
/// library are off by at most kFunctionUlps. Where bounds of a comparison overlap, both branches of
/// `where` are possible. One object serves one thread; equal calls give equal bounds.
template <class T>
class EpilogueBounds {
 public:
  /// `form` must outlive this.
  explicit EpilogueBounds(const EpilogueForm& form);

  /// Computes all values. `values`: of each operand that is read, by slot.
  void evaluate(const Bounds<T>& sum_of_products, const std::vector<T>& values);
  /// Of C's element.
  const Bounds<T>& c() const { return of_[form_.c]; }
  /// Of what is written to, or summed in, an operand.
  const Bounds<T>& operand(std::size_t slot) const { return of_[form_.operands[slot].node]; }

 private:
  const EpilogueForm& form_;
  std::vector<Bounds<T>> of_;  // nodes
};

}  // namespace tilewise
