#include "drop_in/product.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tilewise/number.hpp"

namespace tilewise::drop_in {
namespace {

constexpr int kOperations[] = {kNotTransposed, kTransposed, kConjugate};

/// C[i, j] of a product in cuBLAS's terms, with f64 matrices.
double column_major(const Gemm& gemm, std::int64_t of, std::int64_t i, std::int64_t j) {
  const auto at = [&](const Matrix& x, std::int64_t row, std::int64_t column) {
    return static_cast<const double*>(x.data)[of * x.stride + column * x.ld + row];
  };
  double sum = 0;
  for (std::int64_t p = 0; p < gemm.k; ++p)
    sum += (gemm.op_a ? at(gemm.a, p, i) : at(gemm.a, i, p)) *
           (gemm.op_b ? at(gemm.b, j, p) : at(gemm.b, p, j));
  return sum;
}

/// The element of C with row i and column j of the row-major product.
double row_major(const Product& product, std::int64_t of, std::int64_t i, std::int64_t j) {
  const Problem& problem = product.problem;
  const Call& call = product.call;
  const auto* a = static_cast<const double*>(call.a) + of * call.stride_a;
  const auto* b = static_cast<const double*>(call.b) + of * call.stride_b;
  double sum = 0;
  for (std::int64_t p = 0; p < problem.k; ++p)
    sum += a[problem.a.transposed ? p * call.lda + i : i * call.lda + p] *
           b[problem.b.transposed ? j * call.ldb + p : p * call.ldb + j];
  return sum;
}

TEST(Product, IsTheSameProductInRowMajorTerms) {
  std::mt19937 generator(1);
  const auto draw = [&](int first, int last) {
    return std::uniform_int_distribution(first, last)(generator);
  };
  std::vector<double> a(4096), b(4096), c(4096);
  for (auto* matrix : {&a, &b})
    for (double& value : *matrix) value = draw(-9, 9);
  for (int i = 0; i < 300; ++i) {
    Gemm gemm;
    gemm.op_a = kOperations[draw(0, 2)], gemm.op_b = kOperations[draw(0, 2)];
    gemm.m = draw(1, 12), gemm.n = draw(1, 12), gemm.k = draw(1, 12), gemm.batch = draw(1, 3);
    gemm.a = {a.data(), kF64, (gemm.op_a ? gemm.k : gemm.m) + draw(0, 3), draw(0, 300)};
    gemm.b = {b.data(), kF64, (gemm.op_b ? gemm.n : gemm.k) + draw(0, 3), draw(0, 300)};
    gemm.c = {c.data(), kF64, gemm.m + draw(0, 3), 400};
    gemm.compute = kCompute64, gemm.scalar = kF64;
    const double one = 1, zero = 0;
    gemm.alpha = &one, gemm.beta = &zero;
    Product product;
    ASSERT_EQ(product_of(gemm, kDefaultMath, product), Why::none);
    ASSERT_EQ(product.call.c, c.data());
    ASSERT_EQ(product.call.ldc, gemm.c.ld);
    for (std::int64_t of = 0; of < gemm.batch; ++of)
      for (std::int64_t row = 0; row < gemm.m; ++row)
        for (std::int64_t column = 0; column < gemm.n; ++column)
          // C^T: a row of ours is a column of cuBLAS's, at the same place in memory.
          ASSERT_EQ(row_major(product, of, column, row), column_major(gemm, of, row, column))
              << to_string(product.problem);
  }
}

struct Asked {
  int a, c, compute, scalar, math;
  Why why;
  MathMode mode = MathMode::strict;
};

TEST(Product, NeverHasALowerPrecisionThanAskedFor) {
  constexpr int kPedantic = 2, kEmulated = 4, kEmulatedF64 = 8, kFast16 = 74, kPedantic32 = 69;
  const Asked table[] = {
      {kF32, kF32, kCompute32, kF32, kDefaultMath, Why::none},
      {kF32, kF32, kCompute32, kF32, kNoReducedSums, Why::none},
      {kF32, kF32, kCompute32, kF32, kTf32Math, Why::none, MathMode::tf32},
      {kF32, kF32, kCompute32, kF32, kTf32Math | kNoReducedSums, Why::none, MathMode::tf32},
      {kF32, kF32, kComputeTf32, kF32, kDefaultMath, Why::none, MathMode::tf32},
      {kF32, kF32, kCompute32, kF32, kTensorOpMath, Why::precision},
      {kF32, kF32, kCompute32, kF32, kPedantic, Why::precision},
      {kF32, kF32, kCompute32, kF32, kEmulated, Why::precision},
      {kF32, kF32, kFast16, kF32, kDefaultMath, Why::precision},
      {kF32, kF32, kPedantic32, kF32, kDefaultMath, Why::precision},
      {kF64, kF64, kCompute64, kF64, kDefaultMath, Why::none},
      {kF64, kF64, kCompute64, kF64, kEmulatedF64, Why::precision},
      {kF16, kF16, kCompute16, kF16, kDefaultMath, Why::none},
      {kF16, kF16, kCompute32, kF32, kDefaultMath, Why::none},
      {kF16, kF32, kCompute32, kF32, kTensorOpMath, Why::none},
      {kBf16, kBf16, kCompute32, kF32, kTf32Math, Why::none},
      {kBf16, kF32, kCompute32, kF32, kDefaultMath, Why::none},
      {kBf16, kBf16, kComputeTf32, kF32, kDefaultMath, Why::precision},
      {kI8, kI32, kComputeI32, kI32, kDefaultMath, Why::none},
      {kI8, kF32, kCompute32, kF32, kDefaultMath, Why::types},
      {kF32, kF64, kCompute64, kF64, kDefaultMath, Why::types},
      {4, 4, kCompute32, kF32, kDefaultMath, Why::types},  // complex
  };
  alignas(16) char memory[64]{}, result[64]{};
  for (const Asked& asked : table) {
    Gemm gemm;
    gemm.m = gemm.n = gemm.k = 1;
    gemm.alpha = gemm.beta = memory;
    gemm.a = gemm.b = {memory, asked.a, 1};
    gemm.c = {result, asked.c, 1};
    gemm.compute = asked.compute, gemm.scalar = asked.scalar;
    Product product;
    EXPECT_EQ(product_of(gemm, asked.math, product), asked.why)
        << asked.a << ' ' << asked.compute << ' ' << asked.math;
    if (asked.why == Why::none) {
      EXPECT_EQ(product.problem.math, asked.mode) << asked.a;
    }
  }
}

TEST(Product, LeavesToCublasWhatCublasRefuses) {
  alignas(16) float memory[64]{}, result[64]{};
  const Gemm good{.m = 4,
                  .n = 3,
                  .k = 2,
                  .a = {memory, kF32, 4},
                  .b = {memory, kF32, 2},
                  .c = {result, kF32, 4},
                  .compute = kCompute32,
                  .scalar = kF32,
                  .alpha = memory,
                  .beta = memory};
  Product product;
  ASSERT_EQ(product_of(good, kDefaultMath, product), Why::none);
  EXPECT_EQ(alignment_of(product.problem), (Alignment{8, 16, 16}));
  const auto refused = [&](auto change) {
    Gemm gemm = good;
    change(gemm);
    return product_of(gemm, kDefaultMath, product) == Why::arguments;
  };
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.m = 0; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.k = -1; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.a.ld = 3; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.b.ld = 1; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.c.ld = 3; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.op_a = 7; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.alpha = nullptr; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.c.data = nullptr; }));
  EXPECT_TRUE(refused([](Gemm& gemm) { gemm.batch = 2, gemm.a.stride = -1; }));
  Gemm overlapping = good;
  overlapping.c.data = memory + 7;
  EXPECT_EQ(product_of(overlapping, kDefaultMath, product), Why::overlap);
  overlapping.c.data = memory + 8;  // after A and B
  EXPECT_EQ(product_of(overlapping, kDefaultMath, product), Why::none);
}

TEST(Product, AnswersAResultBesideItsOperandInOneMatrix) {
  alignas(16) float matrix[96]{};
  Gemm gemm{.m = 4,
            .n = 3,
            .k = 3,
            .a = {matrix, kF32, 8},
            .b = {matrix + 48, kF32, 8},
            .c = {matrix + 4, kF32, 8},
            .compute = kCompute32,
            .scalar = kF32,
            .alpha = matrix,
            .beta = matrix};
  Product product;
  EXPECT_EQ(product_of(gemm, kDefaultMath, product), Why::none);
  gemm.c.data = matrix + 3;  // the first row of C is the last row of A
  EXPECT_EQ(product_of(gemm, kDefaultMath, product), Why::overlap);
}

}  // namespace
}  // namespace tilewise::drop_in
