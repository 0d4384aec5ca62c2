#pragma once
#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tilewise/number.hpp"
#include "tuner/reference/reference.hpp"

// Products of every type on a reference's test data, both right and wrong.
namespace tilewise::typed {

inline Problem make_problem(const ProductKind& kind, std::int64_t m, std::int64_t n, std::int64_t k,
                            std::int64_t batch = 1, Layout layout = Layout::nn) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.batch = batch;
  set_types(problem, kind);
  return problem;
}

inline std::string name_of(const ProductKind& kind) {
  return std::string(to_string(kind.a)) + "_" + std::string(to_string(kind.b)) + "_" +
         std::string(to_string(kind.c)) + "_" + std::string(to_string(kind.math));
}

/// A whole operand as stored, tightly packed.
inline std::vector<std::byte> stored(const Reference& reference, DataSet set, DataOf operand) {
  const TestData data = reference.data(set, operand);
  std::vector<std::byte> all(
      static_cast<std::size_t>(data.rows() * bytes_of(data.type(), data.columns())));
  data.fill_all(all.data(), 0);
  return all;
}

inline std::vector<double> values(const Reference& reference, DataSet set, DataOf operand) {
  const TestData data = reference.data(set, operand);
  std::vector<double> all(static_cast<std::size_t>(data.rows() * data.columns()));
  data.values(0, data.rows() * data.columns(), all.data());
  return all;
}

/// C with rows longer than needed and gaps between the matrices of a batch.
class Result {
 public:
  Result(const Reference& reference, DataSet set)
      : reference_(reference), problem_(reference.problem()), set_(set), ldc(problem_.n + 3) {
    stride = (problem_.m + 1) * ldc;
    bytes_.resize(static_cast<std::size_t>(problem_.batch * stride * bytes_of(problem_.c.type)),
                  std::byte{0xFF});
    const TestData c0 = reference.data(set, DataOf::c0);
    for (std::int64_t row = 0; row < problem_.m * problem_.batch; ++row) {
      c0.fill(row * problem_.n, problem_.n, at(row, 0));
    }
  }
  /// `row` counts through the batch.
  void* at(std::int64_t row, std::int64_t j) {
    const std::int64_t rows = std::max<std::int64_t>(1, problem_.m);
    const std::int64_t place = row / rows * stride + row % rows * ldc + j;
    return bytes_.data() + place * bytes_of(problem_.c.type);
  }
  double get(std::int64_t row, std::int64_t j) { return to_double(problem_.c.type, at(row, j)); }
  void set(std::int64_t row, std::int64_t j, double value) {
    from_double(problem_.c.type, value, at(row, j));
  }
  Comparison compare(const Scalars& scalars) const {
    return reference_.compare(set_, scalars, bytes_.data(), ldc, stride);
  }

 private:
  const Reference& reference_;
  const Problem& problem_;
  DataSet set_;
  std::vector<std::byte> bytes_;

 public:
  std::int64_t ldc, stride = 0;
};

/// A product that is right up to the order of summation; `changed` may make the call wrong.
inline Result multiply(
    const Reference& reference, DataSet set, const Scalars& scalars,
    const std::function<void(Problem&, Call&)>& changed = [](Problem&, Call&) {}) {
  Result result(reference, set);
  const std::vector<std::byte> a = stored(reference, set, DataOf::a);
  const std::vector<std::byte> b = stored(reference, set, DataOf::b);
  Problem problem = reference.problem();
  Call call;
  call.a = a.data();
  call.b = b.data();
  call.c = result.at(0, 0);
  call.lda = min_lda(problem);
  // Rows begin at bytes.
  const std::int64_t in_byte = bits_of(problem.b.type) < 8 ? 2 : 1;
  call.ldb = (min_ldb(problem) + in_byte - 1) / in_byte * in_byte;
  call.ldc = result.ldc;
  call.stride_a = problem.m * problem.k;
  call.stride_b = rows_b(problem) * call.ldb;
  call.stride_c = result.stride;
  call.alpha = scalars.alpha;
  call.beta = scalars.beta;
  changed(problem, call);
  reference_multiply(problem, call);
  return result;
}

/// A product of an nn problem with alpha = 1, beta = 0. Each element is `dot(a, stride of a, b,
/// stride of b, k)`, a double that is then rounded to C's type.
template <typename Dot>
Result multiply_by(const Reference& reference, DataSet set, const Dot& dot) {
  Result result(reference, set);
  const Problem& p = reference.problem();
  const std::vector<double> a = values(reference, set, DataOf::a);
  const std::vector<double> b = values(reference, set, DataOf::b);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      result.set(
          i, j,
          dot(&a[static_cast<std::size_t>(i * p.k)], &b[static_cast<std::size_t>(j)], p.n, p.k));
    }
  }
  return result;
}

/// Rounds x to `bits` bits of precision, to nearest with ties to even, or towards zero.
inline double to_bits(double x, int bits) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double place = std::ldexp(1.0, std::ilogb(x) - bits + 1);
  return std::nearbyint(x / place) * place;
}
inline double cut_to_bits(double x, int bits) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double place = std::ldexp(1.0, std::ilogb(x) - bits + 1);
  return std::trunc(x / place) * place;
}

}  // namespace tilewise::typed
