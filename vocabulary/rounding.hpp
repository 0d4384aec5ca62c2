#pragma once

namespace tilewise {

/// The quotient, rounded up, of value >= 0 and unit > 0.
template <typename Value, typename Unit>
constexpr Value ceil_div(Value value, Unit unit) {
  return static_cast<Value>((value + unit - 1) / unit);
}

/// The smallest multiple of `unit` >= `value`.
template <typename Value, typename Unit>
constexpr Value round_up(Value value, Unit unit) {
  return static_cast<Value>(ceil_div(value, unit) * unit);
}

}  // namespace tilewise
