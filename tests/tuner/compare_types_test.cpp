// Right and wrong results of every kind of product.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/tuner/typed_product.hpp"

namespace tilewise::compare_types_test {
namespace {

using namespace typed;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr ReferenceLimits kSampleAll = {0, 0};
constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

ProductKind kind_of(DType operand, DType c, MathMode math = MathMode::strict) {
  const ProductKind* kind = find_product_kind(operand, c, math);
  EXPECT_NE(kind, nullptr);
  return *kind;
}

class EveryKind : public testing::TestWithParam<std::tuple<ProductKind, bool>> {
 protected:
  const ProductKind& kind() const { return std::get<0>(GetParam()); }
  bool sampled() const { return std::get<1>(GetParam()); }
  Reference compute(const Problem& problem) const {
    return Reference::compute(problem, 3, 0, sampled() ? kSampleAll : ReferenceLimits{});
  }
  bool narrow_c() const { return bytes_of(kind().c) < 4; }
};
INSTANTIATE_TEST_SUITE_P(, EveryKind,
                         testing::Combine(testing::ValuesIn(product_kinds().begin(),
                                                            product_kinds().end()),
                                          testing::Bool()),
                         [](const auto& tested) {
                           return name_of(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) ? "_sampled" : "_full");
                         });

TEST_P(EveryKind, RightResultsPass) {
  const std::int64_t shapes[][4] = {{1, 1, 1, 1},    {1, 1, 0, 1},    {0, 5, 5, 1}, {33, 47, 65, 1},
                                    {70, 9, 700, 1}, {5, 7, 11, 4},   {1, 1, 3, 9}, {48, 40, 30, 3},
                                    {3, 5, 7, 0},    {40, 600, 20, 1}};
  int turn = 0;
  for (const auto& [m, n, k, batch] : shapes) {
    const Reference reference = compute(make_problem(kind(), m, n, k, batch, kLayouts[turn++ % 4]));
    for (const DataSet set : data_sets(reference.problem())) {
      for (int index = 0; index < 2; ++index) {
        const Scalars scalars = reference.scalars(set, index);
        const Comparison found = multiply(reference, set, scalars).compare(scalars);
        EXPECT_TRUE(found.ok) << to_string(reference.problem()) << ", set " << static_cast<int>(set)
                              << ": " << found.worst;
        if (set == DataSet::exact) {
          EXPECT_LE(found.error_ratio, sampled() ? 1 : 0);
        }
      }
    }
  }
}

// Changes an element to the next number of C's type, up or down, at several places.
TEST_P(EveryKind, AWrongLastBitOfExactDataIsCaught) {
  const Reference reference = compute(make_problem(kind(), 50, 40, 60));
  const Result right = multiply(reference, DataSet::exact, {1, 0});
  for (const auto& [i, j] : {std::pair{0, 0}, {49, 39}, {0, 39}, {16, 8}, {31, 32}}) {
    Result result = right;
    const double value = result.get(i, j), step = is_integer(kind().c) ? 1 : 1e-9;
    const double unit = 2 * dtype_info(kind().c).unit_roundoff;
    result.set(i, j, value + (value < 0 ? 1 : -1) * std::max(step, unit * std::fabs(value)));
    ASSERT_NE(result.get(i, j), value);
    const Comparison found = result.compare({1, 0});
    EXPECT_FALSE(found.ok) << i << "," << j;
    if (!sampled()) {
      EXPECT_NE(found.worst.find("C[" + std::to_string(i) + "][" + std::to_string(j) + "]"),
                std::string::npos)
          << found.worst;
    }
  }
}

TEST_P(EveryKind, NanAndInfinityAreCaught) {
  if (is_integer(kind().c)) GTEST_SKIP() << "integers have neither";
  const Reference reference = compute(make_problem(kind(), 50, 40, 60));
  for (const DataSet set : data_sets(reference.problem())) {
    const Result right = multiply(reference, set, {1, 0});
    for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
      Result result = right;
      result.set(49, 39, bad);
      EXPECT_FALSE(result.compare({1, 0}).ok) << bad;
    }
  }
}

TEST_P(EveryKind, AMissedElementOfKIsCaught) {
  const Reference reference = compute(make_problem(kind(), 60, 50, 64));
  for (const DataSet set : data_sets(reference.problem())) {
    const auto last_left_out = [](Problem& problem, Call&) { --problem.k; };
    const Scalars scalars = reference.scalars(set, 1);
    // 8-bit results may hide a small part of bounded data; exact data reveal it.
    if (is_fp8(kind().a) && set == DataSet::bounded) continue;
    EXPECT_FALSE(multiply(reference, set, scalars, last_left_out).compare(scalars).ok)
        << "set " << static_cast<int>(set);
  }
}

TEST_P(EveryKind, AnotherMatrixOfTheBatchIsCaught) {
  const Reference reference = compute(make_problem(kind(), 20, 30, 40, 5));
  for (const DataSet set : data_sets(reference.problem())) {
    const auto check = [&](const char* what, auto changed) {
      EXPECT_FALSE(multiply(reference, set, {1, 0}, changed).compare({1, 0}).ok) << what;
    };
    check("always the first A", [](Problem&, Call& call) { call.stride_a = 0; });
    check("always the first B", [](Problem&, Call& call) { call.stride_b = 0; });
    check("the last left out", [](Problem& problem, Call&) { --problem.batch; });
    check("side by side",
          [](Problem& problem, Call& call) { call.stride_c = problem.m * call.ldc; });
  }
}

TEST_P(EveryKind, ForgottenScalarsAreCaught) {
  const Reference reference = compute(make_problem(kind(), 60, 50, 64, 1, Layout::tn));
  for (const DataSet set : data_sets(reference.problem())) {
    const Scalars right = reference.scalars(set, 1);
    for (const Scalars wrong :
         {Scalars{right.alpha, 0}, Scalars{1, right.beta}, Scalars{right.alpha, -right.beta}}) {
      EXPECT_FALSE(multiply(reference, set, wrong).compare(right).ok);
    }
  }
}

// ---- rounding to C's type ----

TEST_P(EveryKind, CuttingOffInsteadOfRoundingIsCaught) {
  if (!narrow_c() || (is_fp8(kind().a) && kind().c == DType::f16))
    GTEST_SKIP() << "exact data need no rounding to this type";
  // Sums of small numbers pass 2^11 where there are many.
  const std::int64_t depth = kind().b == DType::i4 ? 30'000 : 300;
  const Reference reference = compute(make_problem(kind(), 60, 50, depth));
  const int bits = 1 - std::ilogb(dtype_info(kind().c).unit_roundoff) - 1;
  const auto cut = [bits](const double* a, const double* b, std::int64_t ldb, std::int64_t k) {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p) sum += a[p] * b[p * ldb];
    return cut_to_bits(sum, bits);
  };
  EXPECT_FALSE(multiply_by(reference, DataSet::exact, cut).compare({1, 0}).ok);
}

TEST(RoundingToC, ExactSumsThatPassTheLargestSaturateAsTheTypeDoes) {
  // With k = 8192 in e4m3, products are 1 and sums often exceed 448.
  const Reference reference =
      Reference::compute(make_problem(kind_of(DType::e4m3, DType::e4m3), 40, 50, 8192));
  const Scalars scalars = reference.scalars(DataSet::exact, 1);
  Result result = multiply(reference, DataSet::exact, scalars);
  int saturated = 0;
  std::int64_t row = 0, column = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 50; ++j) {
      if (std::fabs(result.get(i, j)) != 448) continue;
      ++saturated;
      row = i;
      column = j;
    }
  }
  EXPECT_GT(saturated, 10);
  EXPECT_TRUE(result.compare(scalars).ok);
  result.set(row, column, std::nan(""));
  EXPECT_FALSE(result.compare(scalars).ok) << "NaN instead of the largest number";
}

// Sums over long rows of a sampled result: rounding passes, and an omitted element fails.
TEST(RoundingToC, SumsOverLongRowsAllowForItAndNoMore) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const Reference reference =
        Reference::compute(make_problem(kind_of(type, type), 300, 2500, 200), 1, 0, kSampleAll);
    for (const DataSet set : data_sets(reference.problem())) {
      const Scalars scalars = reference.scalars(set, 1);
      EXPECT_TRUE(multiply(reference, set, scalars).compare(scalars).ok) << to_string(type);
    }
    Result result = multiply(reference, DataSet::exact, {1, 0});
    EXPECT_TRUE(result.compare({1, 0}).ok) << to_string(type);
    std::int64_t j = 999;  // neither sampled nor small
    while (std::fabs(result.get(201, j)) < 1500) ++j;
    result.set(201, j, 0);
    const Comparison found = result.compare({1, 0});
    EXPECT_FALSE(found.ok) << to_string(type);
    EXPECT_NE(found.worst.find("C[201][" + std::to_string(j)), std::string::npos) << found.worst;
  }
}

// ---- the bound ----

// Makes one element wrong by a share of the bound of docs/measuring.md.
Comparison off_by(const ProductKind& kind, double share, std::int64_t k) {
  const Reference reference = Reference::compute(make_problem(kind, 20, 30, k));
  Result result = multiply(reference, DataSet::bounded, {1, 0});
  const std::vector<double> a = values(reference, DataSet::bounded, DataOf::a);
  const std::vector<double> b = values(reference, DataSet::bounded, DataOf::b);
  double sum = 0, absolute = 0;
  for (std::int64_t p = 0; p < k; ++p) {
    const double term =
        a[static_cast<std::size_t>(7 * k + p)] * b[static_cast<std::size_t>(p * 30 + 11)];
    sum += term;
    absolute += std::fabs(term);
  }
  const auto gamma = [](double n, double u) { return n * u / (1 - n * u); };
  const bool fp8 = kind.promoted_every > 0 && k > 128;
  const double sums =
      fp8 ? gamma(128 + 2, kind.sum_roundoff) + gamma(static_cast<double>(k) / 128 + 2, 0x1p-24)
          : gamma(static_cast<double>(k) + 2, kind.sum_roundoff);
  const double bound =
      (sums + kind.product_roundoff) * absolute + dtype_info(kind.c).unit_roundoff * std::fabs(sum);
  result.set(7, 11, sum + share * bound);
  return result.compare({1, 0});
}

TEST(TypedBound, IsWhatTheDocumentationSays) {
  for (const ProductKind& kind : product_kinds()) {
    if (kind.c != DType::f32) continue;  // a narrower type would round the planted value
    // Strict f32's rounding of the planted value takes part of the last per mille.
    const double margin = kind.sum_roundoff < 0x1p-23 ? 0.05 : 0.01;
    for (const std::int64_t k : {100, 1000}) {
      // For a longer k the norm-wise bound is narrower, except where coarse sums are promoted.
      if (k > 100 && kind.promoted_every == 0) continue;
      EXPECT_TRUE(off_by(kind, 1 - margin, k).ok) << name_of(kind) << " k " << k;
      EXPECT_FALSE(off_by(kind, 1 + margin, k).ok) << name_of(kind) << " k " << k;
    }
  }
}

TEST(TypedBound, IntegersHaveNone) {
  const Reference reference =
      Reference::compute(make_problem(kind_of(DType::i8, DType::i32), 30, 20, 500));
  Result result = multiply(reference, DataSet::bounded, {-3, 2});
  EXPECT_TRUE(result.compare({-3, 2}).ok);
  result.set(29, 19, result.get(29, 19) + 1);
  EXPECT_FALSE(result.compare({-3, 2}).ok);
}

// ---- accurate arithmetic passes, coarser arithmetic does not ----

using Dot = std::function<double(const double*, const double*, std::int64_t, std::int64_t)>;

// Sums of tensor cores: some products at a time, truncated to `bits` bits.
Dot truncating(const std::function<double(double, double)>& product, int at_once, int bits = 24) {
  return [=](const double* a, const double* b, std::int64_t ldb, std::int64_t k) {
    double sum = 0;
    for (std::int64_t p = 0; p < k; p += at_once) {
      double part = sum;
      for (std::int64_t q = p; q < std::min(k, p + at_once); ++q) part += product(a[q], b[q * ldb]);
      sum = cut_to_bits(part, bits);
    }
    return sum;
  };
}
// Sums in order along k, each rounded to nearest.
Dot sequential(int bits) {
  return [=](const double* a, const double* b, std::int64_t ldb, std::int64_t k) {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p) sum = to_bits(sum + a[p] * b[p * ldb], bits);
    return sum;
  };
}
Dot sequential_f64() {
  return [](const double* a, const double* b, std::int64_t ldb, std::int64_t k) {
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p) sum += a[p] * b[p * ldb];
    return sum;
  };
}
double plain(double a, double b) { return a * b; }
double by_tf32(double a, double b) { return to_bits(a, 11) * to_bits(b, 11); }
double by_bf16(double a, double b) { return to_bits(a, 8) * to_bits(b, 8); }
double by_two_parts(double a, double b) {
  const double big_a = to_bits(a, 11), big_b = to_bits(b, 11);
  return big_a * big_b + big_a * to_bits(b - big_b, 11) + to_bits(a - big_a, 11) * big_b;
}
double by_one_part_of_b(double a, double b) {
  const double big_a = to_bits(a, 11);
  return (big_a + to_bits(a - big_a, 11)) * to_bits(b, 11);
}

void expect_judged(const ProductKind& kind, const Dot& dot, bool ok, const char* what,
                   DataSet set = DataSet::bounded,
                   std::initializer_list<std::int64_t> depths = {16, 300, 4096, 60000}) {
  for (const std::int64_t k : depths) {
    for (const bool sampled : {false, true}) {
      const Reference reference =
          Reference::compute(make_problem(kind, k > 10000 ? 6 : 12, 10, k), 1, 0,
                             sampled ? kSampleAll : ReferenceLimits{});
      const Comparison found = multiply_by(reference, set, dot).compare({1, 0});
      EXPECT_EQ(found.ok, ok) << name_of(kind) << ", " << what << ", k " << k << ": "
                              << found.error_ratio << " " << found.worst;
    }
  }
}

TEST(HonestArithmetic, Passes) {
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const DType c : {type, DType::f32}) {
      expect_judged(kind_of(type, c), truncating(plain, 4), true, "cut sums of 4");
      expect_judged(kind_of(type, c), sequential(24), true, "one by one");
    }
  }
  for (const DType c : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
    expect_judged(kind_of(DType::e4m3, c), truncating(plain, 32, 14), true, "14 bits");
  }
  expect_judged(kind_of(DType::e5m2, DType::e5m2), truncating(plain, 32, 14), true, "14 bits");
  const auto f32 = [](MathMode math) { return kind_of(DType::f32, DType::f32, math); };
  expect_judged(f32(MathMode::tf32), truncating(by_tf32, 4), true, "tf32");
  expect_judged(f32(MathMode::f32x3), truncating(by_two_parts, 2), true, "two parts");
  expect_judged(kind_of(DType::f64, DType::f64), sequential_f64(), true, "one by one");
}

TEST(HonestArithmetic, TwoPartsPassWithScaledDataToo) {
  const ProductKind kind = kind_of(DType::f32, DType::f32, MathMode::f32x3);
  expect_judged(kind, truncating(by_two_parts, 2), true, "two parts", DataSet::scaled);
  // Parts below f32's normal numbers flushed to zero.
  const auto flushed = [](double a, double b) {
    const auto flush = [](double x) { return std::fabs(x) < 0x1p-126 ? 0 : x; };
    const double big_a = flush(to_bits(a, 11)), big_b = flush(to_bits(b, 11));
    return big_a * big_b + big_a * flush(to_bits(b - big_b, 11)) +
           flush(to_bits(a - big_a, 11)) * big_b;
  };
  expect_judged(kind, truncating(flushed, 2), true, "flushed parts", DataSet::scaled);
}

TEST(CoarserArithmetic, IsCaught) {
  expect_judged(kind_of(DType::f16, DType::f32), sequential(11), false, "sums in f16");
  expect_judged(kind_of(DType::bf16, DType::f32), sequential(8), false, "sums in bf16");
  const auto f32 = [](MathMode math) { return kind_of(DType::f32, DType::f32, math); };
  expect_judged(f32(MathMode::strict), truncating(by_two_parts, 2), false, "f32x3 for strict",
                DataSet::bounded, {300, 4096, 60000});
  expect_judged(f32(MathMode::strict), truncating(by_tf32, 4), false, "tf32 for strict");
  // Truncated sums have a larger bound for longer k.
  for (const DataSet set : {DataSet::bounded, DataSet::scaled}) {
    expect_judged(f32(MathMode::f32x3), truncating(by_one_part_of_b, 4), false, "a part left out",
                  set, {16, 300, 4096});
  }
  expect_judged(f32(MathMode::tf32), truncating(by_bf16, 4), false, "bf16 for tf32",
                DataSet::bounded, {16, 300, 4096});
  expect_judged(kind_of(DType::f64, DType::f64), sequential(24), false, "sums in f32");
}

// ---- the error of strict f32, for comparison ----

TEST(StrictError, IsThatOfStrictF32AndOnlyBesideOtherModes) {
  for (const Layout layout : kLayouts) {
    Problem problem = make_problem(kind_of(DType::f32, DType::f32), 40, 130, 1000, 1, layout);
    EXPECT_EQ(Reference::compute(problem).strict_f32_error(), 0);
    problem.math = MathMode::f32x3;
    const double error = Reference::compute(problem).strict_f32_error();
    EXPECT_GT(error, 1e-8);
    EXPECT_LT(error, 2e-6);
  }
  // For a small product all rows count: the error is compare()'s for a strict product.
  Problem problem = make_problem(kind_of(DType::f32, DType::f32, MathMode::f32x3), 8, 70, 300);
  const Reference reference = Reference::compute(problem);
  const Dot strict = [](const double* a, const double* b, std::int64_t ldb, std::int64_t k) {
    float sum = 0;
    for (std::int64_t p = 0; p < k; ++p) {
      sum = std::fma(static_cast<float>(a[p]), static_cast<float>(b[p * ldb]), sum);
    }
    return double{sum};
  };
  const Comparison found = multiply_by(reference, DataSet::bounded, strict).compare({1, 0});
  EXPECT_NEAR(reference.strict_f32_error(), found.normwise_error, 1e-3 * found.normwise_error);
}

}  // namespace
}  // namespace tilewise::compare_types_test
