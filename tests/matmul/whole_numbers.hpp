#pragma once
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tilewise/call.hpp"
#include "tilewise/number.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::test {

/// The bits of a floating-point type.
struct Format {
  int exponent, fraction;
};
inline Format format_of(DType type) {
  static const std::map<DType, Format> formats = {{DType::f32, {8, 23}}, {DType::f64, {11, 52}},
                                                  {DType::f16, {5, 10}}, {DType::bf16, {8, 7}},
                                                  {DType::e4m3, {4, 3}}, {DType::e5m2, {5, 2}}};
  return formats.at(type);
}
inline std::uint64_t sign_of(DType type) { return std::uint64_t{1} << (8 * bytes_of(type) - 1); }
/// All bits except the sign are set: a NaN of every floating-point type (e4m3's only one).
inline std::uint64_t not_a_number(DType type) { return sign_of(type) - 1; }
/// Not for e4m3, which has no infinities.
inline std::uint64_t infinity_of(DType type) {
  const Format format = format_of(type);
  return ((std::uint64_t{1} << format.exponent) - 1) << format.fraction;
}

/// A whole number as an element's bits. Exact for |value| <= 8 in every type.
inline std::uint64_t encoded(DType type, int value) {
  if (is_integer(type)) return static_cast<std::uint64_t>(std::int64_t{value});
  if (value == 0) return 0;
  const auto [exponent, fraction] = format_of(type);
  const std::uint64_t sign = value < 0 ? sign_of(type) : 0;
  const auto size = static_cast<std::uint64_t>(std::abs(value));
  const int top = 63 - __builtin_clzll(size);
  const std::uint64_t biased = static_cast<std::uint64_t>((1 << (exponent - 1)) - 1 + top);
  const std::uint64_t rest = size - (std::uint64_t{1} << top);
  return sign | biased << fraction |
         (fraction >= top ? rest << (fraction - top) : rest >> (top - fraction));
}

/// Elements of a type in host memory.
struct Elements {
  Elements(DType type_, std::int64_t count, int value)
      : type(type_), memory(static_cast<std::size_t>(count * bytes_of(type_))) {
    for (std::int64_t i = 0; i < count; ++i) set(i, value);
  }
  std::size_t size() const { return static_cast<std::size_t>(bytes_of(type)); }
  std::byte* at(std::int64_t i) { return memory.data() + i * bytes_of(type); }
  void set(std::int64_t i, int value) { set_bits(i, encoded(type, value)); }
  void set_bits(std::int64_t i, std::uint64_t bits) { std::memcpy(at(i), &bits, size()); }
  double value(std::int64_t i) { return to_double(type, at(i)); }
  bool holds(std::int64_t i, int value) {
    const std::uint64_t bits = encoded(type, value);
    return std::memcmp(at(i), &bits, size()) == 0;
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory.size()); }
  DType type;
  std::vector<std::byte> memory;
};

/// A batch of products of whole numbers. Operands and sums are exact in every type, so results must
/// be equal. C = 2 C - A B with the same B for all products. C starts as 2, and a row of op(A) has
/// at most four nonzeros, so |C| <= 8 afterwards.
struct WholeNumbers {
  /// `extra`: elements between rows and between matrices, filled with 7.
  WholeNumbers(const Problem& p, std::int64_t extra, unsigned seed)
      : problem(p),
        lda(min_lda(p) + extra),
        ldb(min_ldb(p) + extra),
        ldc(p.n + extra),
        stride_a(rows_a(p) * lda + extra),
        stride_c(p.m * ldc + extra),
        a(p.a.type, p.batch * stride_a, 7),
        b(p.b.type, rows_b(p) * ldb, 7),
        c(p.c.type, p.batch * stride_c, 2),
        expected(static_cast<std::size_t>(p.batch * stride_c), 2) {
    std::mt19937 random(seed);
    for (std::int64_t q = 0; q < p.k; ++q)
      for (std::int64_t j = 0; j < p.n; ++j) {
        numbers_b.push_back(int(random() % 3) - 1);
        b.set(p.b.transposed ? j * ldb + q : q * ldb + j, numbers_b.back());
      }
    for (std::int64_t batch = 0; batch < p.batch; ++batch)
      for (std::int64_t i = 0; i < p.m; ++i) fill_row(batch, i, random);
  }

  Call call(const void* on_a, const void* on_b, void* on_c) const {
    Call made;
    made.a = on_a, made.b = on_b, made.c = on_c;
    made.lda = lda, made.ldb = ldb, made.ldc = ldc;
    made.stride_a = stride_a, made.stride_b = 0, made.stride_c = stride_c;
    made.alpha = -1, made.beta = 2;
    return made;
  }
  /// The index of the first wrong element of C, including padding, or -1.
  std::int64_t first_wrong() {
    for (std::int64_t i = 0; i < std::int64_t(expected.size()); ++i)
      if (!c.holds(i, expected[std::size_t(i)])) return i;
    return -1;
  }

  Problem problem;
  std::int64_t lda, ldb, ldc, stride_a, stride_c;
  Elements a, b, c;
  std::vector<int> expected, numbers_b;

 private:
  void fill_row(std::int64_t batch, std::int64_t i, std::mt19937& random) {
    const Problem& p = problem;
    const auto at = [&](std::int64_t q) {
      return batch * stride_a + (p.a.transposed ? q * lda + i : i * lda + q);
    };
    std::map<std::int64_t, int> numbers;
    for (int x = 0; x < 4; ++x) numbers[std::int64_t(random()) % p.k] = random() % 2 ? 1 : -1;
    for (std::int64_t q = 0; q < p.k; ++q) a.set(at(q), 0);
    for (const auto& [q, value] : numbers) a.set(at(q), value);
    for (std::int64_t j = 0; j < p.n; ++j) {
      int sum = 2 * 2;
      for (const auto& [q, value] : numbers) sum -= value * numbers_b[std::size_t(q * p.n + j)];
      expected[std::size_t(batch * stride_c + i * ldc + j)] = sum;
    }
  }
};

}  // namespace tilewise::test
