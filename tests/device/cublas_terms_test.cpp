// Problems in cuBLAS's terms: types, order of operands, unsupported problems. Needs no library.
#include "device/cuda/cublas_terms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tilewise/error.hpp"

namespace tilewise::cuda::cublas_terms_test {
namespace {

using testing::HasSubstr;

Problem problem_of(DType operand, DType c, MathMode math = MathMode::strict,
                   Layout layout = Layout::nt) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = 32, problem.n = 48, problem.k = 64;
  set_types(problem, operand, c, math);
  return problem;
}

TEST(CublasTerms, OperandsChangePlacesSoThatColumnMajorIsRowMajor) {
  const auto operations = [](Layout layout) {
    const BlasTerms terms =
        blas_terms(problem_of(DType::f32, DType::f32, MathMode::strict, layout));
    return std::pair(terms.op_first, terms.op_second);  // B first, then A
  };
  EXPECT_EQ(operations(Layout::nn), std::pair(kNotTransposed, kNotTransposed));
  EXPECT_EQ(operations(Layout::nt), std::pair(kTransposed, kNotTransposed));
  EXPECT_EQ(operations(Layout::tn), std::pair(kNotTransposed, kTransposed));
  EXPECT_EQ(operations(Layout::tt), std::pair(kTransposed, kTransposed));
}

/// {operand, result, compute, scalar}, with the numbers of cuBLAS's headers.
std::vector<int> numbers(const Problem& problem, CublasMath math = CublasMath::default_) {
  const BlasTerms terms = blas_terms(problem, math);
  return {terms.operand, terms.result, terms.compute, terms.scalar};
}

TEST(CublasTerms, EveryKindHasItsTypesAndItsArithmetic) {
  using enum DType;
  EXPECT_EQ(numbers(problem_of(f32, f32)), (std::vector{0, 0, 68, 0}));
  EXPECT_EQ(numbers(problem_of(f32, f32), CublasMath::pedantic), (std::vector{0, 0, 69, 0}));
  EXPECT_EQ(numbers(problem_of(f32, f32, MathMode::tf32)), (std::vector{0, 0, 77, 0}));
  EXPECT_EQ(numbers(problem_of(f32, f32, MathMode::f32x3)), (std::vector{0, 0, 68, 0}));
  EXPECT_EQ(numbers(problem_of(f64, f64)), (std::vector{1, 1, 70, 1}));
  EXPECT_EQ(numbers(problem_of(f16, f16)), (std::vector{2, 2, 68, 0}));
  EXPECT_EQ(numbers(problem_of(f16, f32)), (std::vector{2, 0, 68, 0}));
  EXPECT_EQ(numbers(problem_of(bf16, bf16)), (std::vector{14, 14, 68, 0}));
  EXPECT_EQ(numbers(problem_of(i8, i32)), (std::vector{3, 10, 72, 10}));
  EXPECT_EQ(numbers(problem_of(e4m3, f32)), (std::vector{28, 0, 68, 0}));
  EXPECT_EQ(numbers(problem_of(e5m2, f16)), (std::vector{29, 2, 68, 0}));
}

TEST(CublasTerms, SumsOf8BitFloatsAreFastWhereTheModeIs) {
  EXPECT_FALSE(blas_terms(problem_of(DType::e4m3, DType::bf16)).fast_sums);
  EXPECT_TRUE(blas_terms(problem_of(DType::e4m3, DType::bf16, MathMode::fast)).fast_sums);
}

TEST(CublasTerms, WhatBetaMultipliesIsNeverEightBits) {
  EXPECT_EQ(blas_terms(problem_of(DType::e4m3, DType::e4m3)).addend, blas_type(DType::bf16));
  EXPECT_EQ(blas_terms(problem_of(DType::e4m3, DType::f16)).addend, blas_type(DType::f16));
  EXPECT_EQ(blas_terms(problem_of(DType::f64, DType::f64)).addend, blas_type(DType::f64));
}

TEST(CublasTerms, TypesAreNumberedApart) {
  std::set<int> seen;
  for (const DTypeInfo& row : dtypes())
    if (row.type != DType::i4) seen.insert(blas_type(row.type));
  EXPECT_EQ(seen.size(), dtypes().size() - 1);
  EXPECT_THROW(blas_type(DType::i4), Error);
}

TEST(CublasTerms, ScalarsHaveTheAccumulatorsType) {
  EXPECT_EQ(blas_scalar(-1.3, DType::f64).f64, -1.3);
  EXPECT_EQ(blas_scalar(-1.3, DType::f32).f32, -1.3F);
  EXPECT_EQ(blas_scalar(-7, DType::i32).i32, -7);
}

TEST(CublasRefusals, OrdinaryTypesAreDoneInEveryLayoutAndAlignment) {
  for (const ProductKind& kind : product_kinds()) {
    if (is_integer(kind.a) || is_fp8(kind.a) || kind.a != kind.b) continue;
    for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
      Problem problem = problem_of(kind.a, kind.c, kind.math, layout);
      set_alignment(problem, {2, 2, 2});
      problem.batch = 3;
      EXPECT_EQ(why_not_cublas(problem), "") << to_string(problem);
      EXPECT_EQ(why_not_cublas_lt(problem), "") << to_string(problem);
    }
  }
}

TEST(CublasRefusals, IntegersNeedRowsOfWholeWords) {
  Problem problem = problem_of(DType::i8, DType::i32);
  set_alignment(problem, {4, 4, 4});
  EXPECT_EQ(why_not_cublas(problem), "");
  EXPECT_EQ(why_not_cublas_lt(problem), "");
  problem.b.alignment = 2;
  EXPECT_THAT(why_not_cublas(problem), HasSubstr("multiples of 4"));
  EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("multiples of 4"));
}

TEST(CublasRefusals, EightBitFloatsAreForLtInOneLayoutAligned) {
  Problem problem = problem_of(DType::e4m3, DType::f32);
  EXPECT_THAT(why_not_cublas(problem), HasSubstr("cublasLt only"));
  EXPECT_EQ(why_not_cublas_lt(problem), "");
  problem.c.alignment = 8;
  EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("multiples of 16"));
  problem.c.alignment = 16;
  for (const Layout layout : {Layout::nn, Layout::tn, Layout::tt}) {
    set_layout(problem, layout);
    EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("layout nt"));
  }
  EXPECT_THAT(why_not_cublas_lt(problem_of(DType::e5m2, DType::f32)), HasSubstr("by e4m3"));
}

TEST(CublasTerms, EpiloguesOfCublasLtAreFoundByTheirArithmetic) {
  Problem problem = problem_of(DType::bf16, DType::bf16);
  EXPECT_EQ(lt_epilogue(problem), LtEpilogue{});
  const auto of = [&](const char* text) {
    set_epilogue(problem, Epilogue(text));
    return lt_epilogue(problem);
  };
  EXPECT_EQ(of("relu(acc)"), (LtEpilogue{kLtRelu}));
  EXPECT_EQ(of("b[j] + acc"), (LtEpilogue{kLtWithBias}));
  EXPECT_EQ(of("gelu_tanh(acc + b[j])"), (LtEpilogue{kLtGelu | kLtWithBias}));
  EXPECT_EQ(of("acc * s * t + b[j]"), (LtEpilogue{kLtWithBias, true, true}));
  EXPECT_EQ(of("acc + 1 * c[i,j]"), std::nullopt);
  EXPECT_EQ(of("relu(acc + x * c[i,j])"), (LtEpilogue{kLtRelu, false, false, true}));
  EXPECT_EQ(of("x = acc + b[j]; before[i,j] = x; gelu_tanh(x)"),
            (LtEpilogue{kLtGeluAux | kLtWithBias}));
  EXPECT_EQ(of("x = acc + b[j]; before[i,j] = x; gelu(x)"), std::nullopt);
  EXPECT_EQ(of("acc + b[i]"), std::nullopt);
  EXPECT_EQ(of("gelu(acc)"), std::nullopt);  // by erf
  EXPECT_EQ(epilogue_of({}), nullptr);
  EXPECT_EQ(epilogue_of({8 | 128}), nullptr);
}

TEST(CublasRefusals, EpiloguesOfLtAreOfOneProductAndScalesOfEightBitFloats) {
  const auto why = [](DType operand, DType c, const char* text, std::int64_t batch = 1) {
    Problem problem = problem_of(operand, c);
    problem.batch = batch;
    set_epilogue(problem, Epilogue(text));
    return why_not_cublas_lt(problem);
  };
  EXPECT_EQ(why(DType::bf16, DType::f32, "acc + b[j]"), "");
  EXPECT_EQ(why(DType::e4m3, DType::bf16, "acc * s * t + b[j]"), "");
  EXPECT_THAT(why(DType::bf16, DType::bf16, "acc + b[j]", 2), HasSubstr("one product"));
  EXPECT_THAT(why(DType::f64, DType::f64, "acc + b[j]"), HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(why(DType::bf16, DType::bf16, "acc * s"), HasSubstr("scales"));
  EXPECT_THAT(why(DType::e4m3, DType::f32, "acc + b[j]"), HasSubstr("another type"));
  const auto with_aux = [](std::int64_t n) {
    Problem problem = problem_of(DType::bf16, DType::bf16);
    problem.n = n;
    set_epilogue(problem, Epilogue("aux[i,j] = acc; gelu_tanh(acc)"));
    return why_not_cublas_lt(problem);
  };
  EXPECT_EQ(with_aux(1008), "");
  EXPECT_THAT(with_aux(1004), HasSubstr("multiple of 8"));
  EXPECT_THAT(why(DType::bf16, DType::bf16, "acc + b[i]"), HasSubstr("no epilogue (p0[i]+acc)"));
}

TEST(CublasRefusals, PedanticIsForStrictF32) {
  EXPECT_EQ(why_not_cublas(problem_of(DType::f32, DType::f32), CublasMath::pedantic), "");
  for (const Problem& other :
       {problem_of(DType::f32, DType::f32, MathMode::tf32),
        problem_of(DType::f32, DType::f32, MathMode::f32x3), problem_of(DType::f64, DType::f64),
        problem_of(DType::f16, DType::f16)})
    EXPECT_THAT(why_not_cublas(other, CublasMath::pedantic), HasSubstr("strict f32"));
}

TEST(CublasRefusals, GroupedProductsAreNoBatches) {
  Problem problem = problem_of(DType::f32, DType::f32);
  problem.batch = 4;
  for (const Grouping grouping : {Grouping::rows, Grouping::counts, Grouping::depth}) {
    problem.grouping = grouping;
    EXPECT_THAT(why_not_cublas(problem), HasSubstr("no grouped product"));
    EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("no grouped product"));
  }
}

TEST(CublasRefusals, EmptyAndUnknownProducts) {
  Problem problem = problem_of(DType::f32, DType::f32);
  problem.k = 0;
  EXPECT_THAT(why_not_cublas(problem), HasSubstr("empty"));
  EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("empty"));
  problem = problem_of(DType::f32, DType::f32);
  problem.b.type = DType::f16;
  EXPECT_THAT(why_not_cublas(problem), HasSubstr("nothing computes"));
  EXPECT_THAT(why_not_cublas_lt(problem), HasSubstr("nothing computes"));
}

}  // namespace
}  // namespace tilewise::cuda::cublas_terms_test
