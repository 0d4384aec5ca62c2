// Test data and references of every kind of product, and of batches.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tests/tuner/typed_product.hpp"
#include "tuner/reproduce.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::reference_types_test {
namespace {

using namespace typed;

std::vector<double> all_of(const TestData& data) {
  std::vector<double> values(static_cast<std::size_t>(data.rows() * data.columns()));
  data.values(0, data.rows() * data.columns(), values.data());
  return values;
}

TEST(TypedData, ValuesAreWhatIsStored) {
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = make_problem(kind, 23, 37, 41, 3, Layout::tn);
    for (const DataSet set : data_sets(problem)) {
      for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
        const TestData data(problem, set, operand, 5);
        EXPECT_EQ(data.type(), operand == DataOf::c0  ? kind.c
                               : operand == DataOf::a ? kind.a
                                                      : kind.b);
        if (bits_of(data.type()) < 8) continue;
        const std::int64_t count = data.rows() * data.columns(), bytes = bytes_of(data.type());
        std::vector<std::byte> stored(static_cast<std::size_t>(count * bytes));
        data.fill_all(stored.data(), 3);
        const std::vector<double> values = all_of(data);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(to_double(data.type(), &stored[at * static_cast<std::size_t>(bytes)]),
                    values[at]);
        }
        EXPECT_TRUE(data.matches(0, count, stored.data()));
        stored[stored.size() / 2] ^= std::byte{1};
        EXPECT_FALSE(data.matches(0, count, stored.data()));
      }
    }
  }
}

TEST(TypedData, BoundedIsRoundedToItsTypeInRangeAndNeverZero) {
  for (const ProductKind& kind : product_kinds()) {
    if (is_integer(kind.a) || is_integer(kind.b)) continue;
    const Problem problem = make_problem(kind, 150, 160, 170);
    for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
      double squares = 0, count = 0;
      for (const double x : all_of(TestData(problem, DataSet::bounded, operand, 1))) {
        ASSERT_TRUE(x != 0 && std::fabs(x) <= 1) << name_of(kind) << " " << x;
        squares += x * x;
        ++count;
      }
      EXPECT_NEAR(squares / count, 1.0 / 3, 0.02) << name_of(kind);
    }
  }
}

TEST(TypedData, F64IsAsFineAsItsType) {
  const Problem problem =
      make_problem(*find_product_kind(DType::f64, DType::f64, MathMode::strict), 50, 50, 50);
  int finer = 0;
  for (const double x : all_of(TestData(problem, DataSet::bounded, DataOf::a, 1))) {
    finer += x != static_cast<double>(static_cast<float>(x));
  }
  EXPECT_GT(finer, 2490);
}

TEST(TypedData, BytesTakeTheirWholeRange) {
  const Problem problem =
      make_problem(*find_product_kind(DType::i8, DType::i32, MathMode::strict), 300, 300, 300);
  for (const DataSet set : data_sets(problem)) {
    const std::vector<double> values = all_of(TestData(problem, set, DataOf::a, 1));
    const std::set<double> seen(values.begin(), values.end());
    EXPECT_EQ(seen.size(), 255U) << "all but 0";
    EXPECT_EQ(*seen.begin(), -128);
    EXPECT_EQ(*seen.rbegin(), 127);
  }
}

TEST(TypedData, ExactIsOfIntegersThatTheirTypeHoldsAndWhoseSumsAreExact) {
  for (const ProductKind& kind : product_kinds()) {
    for (const std::int64_t k : {1, 30, 4096, 70000, 30'000'000}) {
      const Problem problem = make_problem(kind, 2, 2, k);
      const ExactRange range = exact_range(problem);
      const double terms = std::ceil(static_cast<double>(k) / static_cast<double>(range.a_period));
      const double sum = terms * std::pow(static_cast<double>(range.magnitude), 2);
      EXPECT_GE(range.magnitude, 1);
      const double held =
          is_integer(kind.accumulator) ? 0x1p31 : 1 / dtype_info(kind.accumulator).unit_roundoff;
      EXPECT_LT(3 * sum + 2 * 16, held) << name_of(kind) << " " << k;
      if (kind.sum_roundoff > 0) {
        EXPECT_LT(sum, 1 / kind.sum_roundoff) << name_of(kind) << " " << k;
      }
      if (k > 100) continue;
      for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
        const DType type = operand == DataOf::c0 ? kind.c : operand == DataOf::a ? kind.a : kind.b;
        for (const double x : all_of(TestData(problem, DataSet::exact, operand, 1))) {
          double back = x;
          from_double(type, x, &back);
          ASSERT_EQ(to_double(type, &back), std::nearbyint(x)) << name_of(kind);
        }
      }
    }
  }
  const auto magnitude = [](DType operand, DType c) {
    return exact_range(make_problem(*find_product_kind(operand, c, MathMode::strict), 2, 2, 16))
        .magnitude;
  };
  EXPECT_EQ(magnitude(DType::e4m3, DType::f32), 16);
  EXPECT_EQ(magnitude(DType::e5m2, DType::f32), 8);
  EXPECT_EQ(magnitude(DType::i8, DType::i32), 128);
}

TEST(TypedData, SparseRowsOfEveryMatrixTogetherCoverEveryPosition) {
  const ProductKind kind = *find_product_kind(DType::e4m3, DType::f32, MathMode::strict);
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    const Problem problem = make_problem(kind, 40, 1, 20000, 2, layout);
    const std::int64_t period = exact_range(problem).a_period;
    ASSERT_GT(period, 1);
    const std::vector<double> a = all_of(TestData(problem, DataSet::exact, DataOf::a, 1));
    for (std::int64_t matrix = 0; matrix < 2; ++matrix) {
      for (std::int64_t p = 0; p < 100; ++p) {
        int seen = 0;
        for (std::int64_t i = 0; i < 40; ++i) {
          const std::int64_t at = layout == Layout::nn ? i * 20000 + p : p * 40 + i;
          seen += a[static_cast<std::size_t>(matrix * 40 * 20000 + at)] != 0;
        }
        ASSERT_GT(seen, 0) << "matrix " << matrix << " k " << p;
        ASSERT_LT(seen, 40);
      }
    }
  }
}

TEST(TypedData, ScaledDataAreTheBoundedOnesTimesPowersOfTwo) {
  const ProductKind kind = *find_product_kind(DType::f32, DType::f32, MathMode::f32x3);
  for (const Layout layout : {Layout::nn, Layout::tt}) {
    const Problem problem = make_problem(kind, 60, 50, 8, 2, layout);
    std::set<int> exponents;
    for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
      const TestData data(problem, DataSet::scaled, operand, 1);
      const std::vector<double> scaled = all_of(data);
      const std::vector<double> plain = all_of(TestData(problem, DataSet::bounded, operand, 1));
      const std::int64_t rows = data.rows() / 2;  // of each matrix
      for (std::size_t at = 0; at < scaled.size(); ++at) {
        const auto row = static_cast<std::int64_t>(at) / data.columns() % rows;
        const auto column = static_cast<std::int64_t>(at) % data.columns();
        const bool t = layout == Layout::tt && operand != DataOf::c0;
        const int by_row = row_exponent(t ? column : row);
        const int by_column = column_exponent(t ? row : column);
        const int exponent =
            (operand != DataOf::b ? by_row : 0) + (operand != DataOf::a ? by_column : 0);
        exponents.insert(exponent);
        ASSERT_EQ(scaled[at], std::ldexp(plain[at], exponent));
      }
    }
    EXPECT_EQ(*exponents.begin(), -116) << "parts below f32's normal numbers";
    EXPECT_GE(*exponents.rbegin(), 80);
  }
}

// ---- batches ----

TEST(Batches, EachMatrixHasItsOwnData) {
  const ProductKind kind = *find_product_kind(DType::f16, DType::f16, MathMode::strict);
  const Problem problem = make_problem(kind, 11, 13, 17, 4);
  for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
    const TestData data(problem, DataSet::bounded, operand, 1);
    const std::vector<double> values = all_of(data);
    const auto one = static_cast<std::ptrdiff_t>(values.size() / 4);
    for (std::ptrdiff_t other = 1; other < 4; ++other) {
      EXPECT_FALSE(std::equal(values.begin(), values.begin() + one, values.begin() + other * one));
    }
  }
}

TEST(Batches, AnyNumberOfThreadsGivesTheSame) {
  const ProductKind kind = *find_product_kind(DType::bf16, DType::f32, MathMode::strict);
  const Problem problem = make_problem(kind, 30, 20, 10, 200);
  for (const ReferenceLimits& limits : {ReferenceLimits{}, ReferenceLimits{0, 0}}) {
    const Reference one = Reference::compute(problem, 5, 1, limits);
    const Reference three = Reference::compute(problem, 5, 3, limits);
    ASSERT_EQ(one.block().bytes(), three.block().bytes());
    EXPECT_EQ(std::memcmp(one.block().data(), three.block().data(), one.block().bytes()), 0);
  }
}

TEST(Batches, ManySmallProductsOfALargeBatchAreChecked) {
  const ProductKind kind = *find_product_kind(DType::f32, DType::f32, MathMode::strict);
  const Problem problem = make_problem(kind, 8, 8, 8, 20000);
  for (const ReferenceLimits& limits : {ReferenceLimits{}, ReferenceLimits{0, 0}}) {
    const Reference reference = Reference::compute(problem, 1, 0, limits);
    Result result = multiply(reference, DataSet::exact, {1, 0});
    EXPECT_TRUE(result.compare({1, 0}).ok);
    result.set(8 * 12345 + 3, 5, result.get(8 * 12345 + 3, 5) + 1);
    const Comparison found = result.compare({1, 0});
    EXPECT_FALSE(found.ok);
    EXPECT_NE(found.worst.find("C[3][5] of matrix 12345"), std::string::npos) << found.worst;
  }
}

TEST(Batches, TheReferenceIsAnotherForOtherTypesAndBatches) {
  const ProductKind f16 = *find_product_kind(DType::f16, DType::f16, MathMode::strict);
  const ProductKind bf16 = *find_product_kind(DType::bf16, DType::bf16, MathMode::strict);
  const Reference reference = Reference::compute(make_problem(f16, 8, 8, 8, 2));
  const auto attach = [&](const Problem& problem) {
    return Reference::attach(
        problem, SharedBlock::map(dup(reference.block().fd()), reference.block().bytes()));
  };
  EXPECT_NO_THROW(attach(make_problem(f16, 8, 8, 8, 2)));
  EXPECT_THROW(attach(make_problem(bf16, 8, 8, 8, 2)), std::exception);
  EXPECT_THROW(attach(make_problem(f16, 8, 16, 8, 1)), std::exception);
}

// ---- the typed product itself ----

TEST(TypedMultiply, KnownAnswers) {
  Problem problem =
      make_problem(*find_product_kind(DType::i8, DType::i32, MathMode::strict), 1, 2, 3);
  const std::int8_t a[] = {-128, 127, 5};
  const std::int8_t b[] = {-128, 1, 127, -128, 3, 0};
  std::int32_t c[] = {10, -10};
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = 3, call.ldb = 2, call.ldc = 2;
  call.alpha = 2, call.beta = -1;
  reference_multiply(problem, call);
  EXPECT_EQ(c[0], 2 * (16384 + 16129 + 15) - 10);
  EXPECT_EQ(c[1], 2 * (-128 - 16256) + 10);

  set_types(problem, DType::e4m3, DType::f16, MathMode::strict);
  const std::uint8_t small[] = {0x38, 0xB8, 0x7E, 0x38, 0x40, 0x01, 0x30, 0x00, 0x7E};  // 1 -1 448
  std::uint16_t half[] = {0, 0};
  problem.n = 2;
  call.a = small, call.b = small + 3, call.c = half;  // B: 1 2, 2^-9 .5, 0 448
  call.alpha = 1, call.beta = 0;
  reference_multiply(problem, call);
  EXPECT_EQ(to_double(DType::f16, &half[0]), 1 - 0x1p-9);
  EXPECT_EQ(half[1], 0x7C00) << "448 x 448 passes 65504";
}

TEST(TypedMultiply, MatricesOfABatchLieWhereTheStridesSay) {
  const Problem problem =
      make_problem(*find_product_kind(DType::f64, DType::f64, MathMode::strict), 1, 1, 2, 3);
  const double a[] = {1, 2, 0, 3, 4, 0, 5, 6}, b[] = {10, 1};
  double c[] = {-1, -1, -1, -1, -1};
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = 2, call.ldb = 1, call.ldc = 1;
  call.stride_a = 3, call.stride_b = 0, call.stride_c = 2;
  reference_multiply(problem, call);
  EXPECT_EQ(std::vector<double>(c, c + 5), (std::vector<double>{12, -1, 34, -1, 56}));
}

TEST(Reproduce, NamesTheKindWhereItIsNotTheUsualOne) {
  Problem problem =
      make_problem(*find_product_kind(DType::f32, DType::f32, MathMode::strict), 8, 8, 8);
  EXPECT_EQ(problem_options(problem), "--sizes 8x8x8 --layout nn --align 16,16,16");
  problem.math = MathMode::f32x3;
  EXPECT_EQ(problem_options(problem), "--sizes 8x8x8 --layout nn --align 16,16,16 --math f32x3");
  set_types(problem, DType::e4m3, DType::f16, MathMode::strict);
  problem.batch = 7;
  EXPECT_EQ(problem_options(problem),
            "--sizes 8x8x8 --layout nn --align 16,16,16 --dtype e4m3 --out f16 --batch 7");
}

}  // namespace
}  // namespace tilewise::reference_types_test
