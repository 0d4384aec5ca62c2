#include "tuner/reference/epilogue_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tilewise {
namespace {

using Op = EpilogueOp;

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

template <class T>
Bounds<T> with_nan(Bounds<T> x, bool nan) {
  x.nan |= nan;
  return x;
}

template <class T>
Bounds<T> all() {
  return {-kInfinity<T>, kInfinity<T>, true};
}

template <class T>
Bounds<T> hull(const Bounds<T>& x, const Bounds<T>& y) {
  return {std::min(x.low, y.low), std::max(x.high, y.high), x.nan || y.nan};
}

template <class T>
bool contains(const Bounds<T>& x, T value) {
  return x.low <= value && value <= x.high;
}

template <class T>
Bounds<T> negated(const Bounds<T>& x) {
  return {-x.high, -x.low, x.nan};
}

/// The bounds of a binary operator of IEEE 754 from its values at the corners, where it has its
/// least and largest value.
template <class T, class Operator>
Bounds<T> of_corners(const Bounds<T>& x, const Bounds<T>& y, const Operator& apply) {
  Bounds<T> made = Bounds<T>::nothing();
  made.nan = x.nan || y.nan;
  if (x.empty() || y.empty()) return made;
  for (const T of_x : {x.low, x.high})
    for (const T of_y : {y.low, y.high}) {
      const T value = apply(of_x, of_y);
      if (value != value) return all<T>();  // infinity - infinity, 0 infinity: seldom, and coarse
      made.low = std::min(made.low, value);
      made.high = std::max(made.high, value);
    }
  return made;
}

/// Whether all four ends are finite, and so small that their sum is, too.
template <class T>
[[gnu::always_inline]] inline bool are_finite(const Bounds<T>& x, const Bounds<T>& y) {
  const T sum = std::abs(x.low) + std::abs(x.high) + std::abs(y.low) + std::abs(y.high);
  return sum < kInfinity<T>;
}

// Most numbers are finite; the ends of a sum are then those of its arguments' ends. A judge spends
// its time in these functions: in line they take 0.4 of the time, since bounds stay in registers.
template <class T>
[[gnu::always_inline]] inline Bounds<T> add(const Bounds<T>& x, const Bounds<T>& y) {
  if (are_finite(x, y)) return {x.low + y.low, x.high + y.high, x.nan || y.nan};
  return of_corners(x, y, [](T a, T b) { return a + b; });
}
template <class T>
[[gnu::always_inline]] inline Bounds<T> multiply(const Bounds<T>& x, const Bounds<T>& y) {
  if (are_finite(x, y)) {
    const T a = x.low * y.low, b = x.low * y.high, c = x.high * y.low, d = x.high * y.high;
    return {std::min(std::min(a, b), std::min(c, d)), std::max(std::max(a, b), std::max(c, d)),
            x.nan || y.nan};
  }
  const auto infinite = [](const Bounds<T>& z) {
    return z.low == -kInfinity<T> || z.high == kInfinity<T>;
  };
  if ((infinite(x) && contains(y, T(0))) || (infinite(y) && contains(x, T(0)))) return all<T>();
  return of_corners(x, y, [](T a, T b) { return a * b; });
}
template <class T>
Bounds<T> divide(const Bounds<T>& x, const Bounds<T>& y) {
  if (!x.empty() && contains(y, T(0))) return all<T>();
  return of_corners(x, y, [](T a, T b) { return a / b; });
}

/// A function that never falls, by `ulps` from exact.
template <class T, class Function>
Bounds<T> rising(const Bounds<T>& x, const Function& function, int ulps) {
  if (x.empty()) return Bounds<T>::nothing();
  const auto slack = [ulps](T value) {
    if (ulps == 0 || !std::isfinite(value)) return T(0);
    return T(ulps) * (std::abs(value) * std::numeric_limits<T>::epsilon() +
                      std::numeric_limits<T>::denorm_min());
  };
  const T low = function(x.low), high = function(x.high);
  return {low - slack(low), high + slack(high), x.nan};
}

template <class T>
Bounds<T> exponential(const Bounds<T>& x) {
  return rising(
      x, [](T a) { return std::exp(a); }, kFunctionUlps);
}
template <class T>
Bounds<T> error_function(const Bounds<T>& x) {
  return rising(
      x, [](T a) { return std::erf(a); }, kFunctionUlps);
}
template <class T>
Bounds<T> hyperbolic_tangent(const Bounds<T>& x) {
  return rising(
      x, [](T a) { return std::tanh(a); }, kFunctionUlps);
}

/// 1 / (1 + exp(-x)), off by twice a library's function: that, and two operators. In f32 also by
/// |x| roundings, and 0 where it is not a normal number (words/functions.cuh).
template <class T>
[[gnu::always_inline]] inline Bounds<T> sigmoid(const Bounds<T>& x) {
  if (x.empty()) return Bounds<T>::nothing();
  const auto exact = [](T a) { return T(1) / (T(1) + std::exp(-a)); };
  const auto slack = [](T a, T value) {
    using Limits = std::numeric_limits<T>;
    const T relative = T(2 * kFunctionUlps) * value * Limits::epsilon();
    if (sizeof(T) == 8) return relative + T(kFunctionUlps) * Limits::denorm_min();
    const T size = std::min(std::abs(a), T(1000));
    return relative + T(2) * size * value * Limits::epsilon() + T(2) * Limits::min();
  };
  const T low = exact(x.low), high = exact(x.high);
  return {std::max(T(0), low - slack(x.low, low)), high + slack(x.high, high), x.nan};
}

/// (1 + erf(x / sqrt(2))) / 2, by an absolute error from exact: half of erf's, in f32 that of a
/// polynomial (words/functions.cuh).
template <class T>
[[gnu::always_inline]] inline Bounds<T> normal(const Bounds<T>& x) {
  if (x.empty()) return Bounds<T>::nothing();
  const auto exact = [](T a) { return T(0.5) * (T(1) + std::erf(a * T(std::numbers::sqrt2 / 2))); };
  constexpr T kSlack =
      T(sizeof(T) == 8 ? kFunctionUlps / 2 : kFunctionUlps) * std::numeric_limits<T>::epsilon();
  return {std::max(T(0), exact(x.low) - kSlack), exact(x.high) + kSlack, x.nan};
}

/// A rising function of numbers from 0 on; NaN below.
template <class T, class Function>
Bounds<T> from_zero(const Bounds<T>& x, const Function& function, int ulps) {
  if (!(x.high >= T(0))) return Bounds<T>::nothing();
  return with_nan(rising(Bounds<T>{std::max(x.low, T(0)), x.high, x.nan}, function, ulps),
                  x.low < T(0));
}
template <class T>
Bounds<T> square_root(const Bounds<T>& x) {
  return from_zero(
      x, [](T a) { return std::sqrt(a); }, 0);
}

template <class T>
[[gnu::always_inline]] inline Bounds<T> absolute(const Bounds<T>& x) {
  if (x.empty() || x.low >= T(0)) return x;
  if (x.high <= T(0)) return negated(x);
  return {T(0), std::max(-x.low, x.high), x.nan};
}

template <class T>
[[gnu::always_inline]] inline Bounds<T> square_of(const Bounds<T>& x) {
  const Bounds<T> size = absolute(x);
  return size.empty() ? size : Bounds<T>{size.low * size.low, size.high * size.high, size.nan};
}

template <class T>
Bounds<T> smaller(const Bounds<T>& x, const Bounds<T>& y) {
  if (x.empty() || y.empty()) return Bounds<T>::nothing();
  return {std::min(x.low, y.low), std::min(x.high, y.high), x.nan || y.nan};
}

/// A condition as bounds of 0 and 1. With NaN, only != holds.
template <class T>
Bounds<T> condition(const Bounds<T>& x, const Bounds<T>& y, Op op) {
  bool may = false, may_not = x.nan || y.nan;
  if (!x.empty() && !y.empty()) {
    const bool apart = x.high < y.low || y.high < x.low;
    const bool same = x.low == x.high && y.low == y.high && x.low == y.low;
    switch (op) {
      case Op::less:
        may = x.low < y.high;
        may_not |= !(x.high < y.low);
        break;
      case Op::less_or_equal:
        may = x.low <= y.high;
        may_not |= !(x.high <= y.low);
        break;
      default:  // equal, and != turned round below
        may = !apart;
        may_not |= !same;
    }
  }
  if (op == Op::not_equal) std::swap(may, may_not);
  return {T(!may_not), T(may), false};
}

template <class T>
Bounds<T> chosen(const Bounds<T>& where, const Bounds<T>& x, const Bounds<T>& y) {
  if (where.low == T(1)) return x;
  return where.high == T(0) ? y : hull(x, y);
}

template <class T>
[[gnu::always_inline]] inline Bounds<T> value_of(const EpilogueNode& node, const Bounds<T>& x,
                                                 const Bounds<T>& y, const Bounds<T>& z) {
  const auto number = [](double value) { return Bounds<T>::of(T(value)); };
  const Bounds<T> one = number(1);
  switch (node.op) {
    case Op::negate:
      return negated(x);
    case Op::add:
      return add(x, y);
    case Op::subtract:
      return add(x, negated(y));
    case Op::multiply:
      return multiply(x, y);
    case Op::divide:
      return divide(x, y);
    case Op::minimum:
      return smaller(x, y);
    case Op::maximum:
      return negated(smaller(negated(x), negated(y)));
    case Op::less:
    case Op::less_or_equal:
    case Op::equal:
    case Op::not_equal:
      return condition(x, y, node.op);
    case Op::where:
      return chosen(x, y, z);
    case Op::absolute:
      return absolute(x);
    case Op::square_root:
      return square_root(x);
    case Op::reciprocal_root:
      return divide(one, square_root(x));
    case Op::exponential:
      return exponential(x);
    case Op::logarithm:
      return from_zero(
          x, [](T a) { return std::log(a); }, kFunctionUlps);
    case Op::hyperbolic_tangent:
      return hyperbolic_tangent(x);
    case Op::error_function:
      return error_function(x);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::silu:
      return multiply(x, sigmoid(x));
    case Op::relu:
      return rising(
          x, [](T a) { return a < T(0) ? T(0) : a; }, 0);
    case Op::gelu:
      return multiply(x, normal(x));
    case Op::gelu_tanh: {
      const Bounds<T> square = square_of(x);
      const Bounds<T> slope =
          add(number(1.5957691216057308), multiply(number(0.07135481627260025), square));
      return multiply(x, sigmoid(multiply(x, slope)));
    }
    default:
      return {};
  }
}

}  // namespace

template <class T>
Bounds<T> Bounds<T>::nothing() {
  return {kInfinity<T>, -kInfinity<T>, true};
}

template <class T>
EpilogueBounds<T>::EpilogueBounds(const EpilogueForm& form) : form_(form), of_(form.nodes.size()) {}

template <class T>
void EpilogueBounds<T>::evaluate(const Bounds<T>& sum_of_products, const std::vector<T>& values) {
  for (std::size_t n = 0; n < of_.size(); ++n) {
    const EpilogueNode& node = form_.nodes[n];
    const auto x = [&](std::size_t nth) {
      return nth < node.x.size() ? of_[node.x[nth]] : Bounds<T>{};
    };
    if (node.op == Op::sum_of_products)
      of_[n] = sum_of_products;
    else if (node.op == Op::number)
      of_[n] = Bounds<T>::of(static_cast<T>(node.value));
    else if (node.op == Op::operand)
      of_[n] = Bounds<T>::of(values[node.slot]);
    else
      of_[n] = value_of(node, x(0), x(1), x(2));
  }
}

template struct Bounds<float>;
template struct Bounds<double>;
template class EpilogueBounds<float>;
template class EpilogueBounds<double>;

}  // namespace tilewise
