#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "tilewise/problem.hpp"

namespace tilewise::test {

inline constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

inline Problem make_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                            int alignment = 16) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  set_alignment(problem, {alignment, alignment, alignment});
  return problem;
}

/// The values of a small tile of an emulated product, which compiles fast for the CPU.
template <class Configuration>
void set_small_emulated(Configuration& c) {
  for (const auto& [name, value] : {std::pair{"TILE_M", 64},
                                    {"TILE_N", 8},
                                    {"CONSUMERS", 1},
                                    {"SWAP_AB", 0},
                                    {"STAGES", 2},
                                    {"EPILOGUE", 0}})
    c.set(name, value);
}

/// Those whose elements have whole bytes, as the memory of most tests has; those of i4 are checked
/// by check_kernels, the judge's tests and narrow_host_test.cpp.
inline std::vector<ProductKind> whole_byte_kinds() {
  std::vector<ProductKind> kinds;
  for (const ProductKind& kind : product_kinds())
    if (bits_of(kind.b) >= 8) kinds.push_back(kind);
  return kinds;
}

/// Those with an A and a B of one type.
inline std::vector<ProductKind> one_type_kinds() {
  std::vector<ProductKind> kinds;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == kind.b) kinds.push_back(kind);
  return kinds;
}

/// The problem with these types. Its alignments are at least one element.
inline Problem with_kind(Problem problem, const ProductKind& kind) {
  set_types(problem, kind);
  const auto at_least = [](int& alignment, DType type) {
    alignment = std::max(alignment, bytes_of(type));
  };
  at_least(problem.a.alignment, kind.a);
  at_least(problem.b.alignment, kind.b);
  at_least(problem.c.alignment, kind.c);
  return problem;
}

/// A problem with sizes spread over orders of magnitude, including edges, and any layout and
/// alignment.
inline Problem random_problem(std::mt19937_64& generator, std::int64_t largest) {
  const auto size = [&]() -> std::int64_t {
    std::uniform_real_distribution<double> exponent(0.0, 1.0);
    const double x = exponent(generator);
    const auto value = std::int64_t(std::pow(double(largest), x));
    switch (generator() % 4) {
      case 0:
        return value;
      case 1:
        return (value + 31) / 32 * 32;
      case 2:
        return value / 2 * 2 + 1;
      default:
        return value + 1;
    }
  };
  Problem problem = make_problem(kLayouts[generator() % 4], size(), size(), size());
  const auto alignment = [&] { return 4 << (generator() % 3); };
  set_alignment(problem, {alignment(), alignment(), alignment()});
  return problem;
}

/// A problem of any kind of product, sometimes with a batch.
inline Problem random_typed_problem(std::mt19937_64& generator, std::int64_t largest) {
  const auto kinds = product_kinds();
  const std::size_t kind = generator() % (2 * kinds.size());
  Problem problem =
      with_kind(random_problem(generator, largest), kind < kinds.size() ? kinds[kind] : kinds[0]);
  if (generator() % 4 == 0) problem.batch = static_cast<std::int64_t>(2 + generator() % 70);
  return problem;
}

}  // namespace tilewise::test
