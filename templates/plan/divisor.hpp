// Division by a number that only the host knows: a multiplication and a shift on the device
// (Divisor in parts/arguments.cuh).
#pragma once
#include <cstdint>

namespace tilewise {

/// n / d = n x multiplier >> shift for all n below 2^31: T. Granlund and P. L. Montgomery, Division
/// by Invariant Integers using Multiplication, PLDI 1994 (theorem 4.2 with N = 31).
struct Divisor {
  std::uint32_t multiplier = 0, shift = 0;
};

/// d: 1 to 2^31.
constexpr Divisor divisor_of(std::int64_t d) {
  Divisor divisor{0, 31};
  while ((std::int64_t{1} << (divisor.shift - 31)) < d) ++divisor.shift;
  const auto power = std::uint64_t{1} << divisor.shift, by = static_cast<std::uint64_t>(d);
  divisor.multiplier = static_cast<std::uint32_t>((power + by - 1) / by);
  return divisor;
}

}  // namespace tilewise
