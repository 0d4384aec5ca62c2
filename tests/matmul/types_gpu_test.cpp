// Every kind of product on the GPU, through the entry points, and packed operands.
#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::types_gpu_test {
namespace {

struct TypesGpu : test::Served {
  TypesGpu() : Served("auto") {}
};

TEST_F(TypesGpu, EveryKindInTurnAlignedAndNotBatchedOrNot) {
  Matmul matmul(options);
  const Size sizes[] = {{9, 7, 13}, {130, 70, 67}, {64, 128, 96}};
  std::size_t turn = 0;
  for (const ProductKind& kind : test::whole_byte_kinds())
    for (int again = 0; again < 2; ++again, ++turn) {
      const Size& size = sizes[turn % 3];
      const Problem problem =
          typed_problem(test::kLayouts[(turn / 2 + turn) % 4], size.m, size.n, size.k, kind.a,
                        kind.b, kind.c, kind.math, std::int64_t(1 + turn % 2));
      if (kind.math != MathMode::strict && is_unsupported(matmul, problem)) continue;
      for (const std::int64_t extra : {0, 3}) check_product(matmul, problem, extra);
    }
}

TEST_F(TypesGpu, NanAndInfinityStayWhereTheyBelong) {
  for (const ProductKind& kind : test::whole_byte_kinds())
    for (const Layout layout : test::kLayouts) check_nan_and_infinity(kind, layout);
}

TEST_F(TypesGpu, NanAndInfinityByWgmma) {
  std::size_t turn = 0;
  for (const ProductKind& kind : test::whole_byte_kinds())
    check_nan_and_infinity(kind, test::kLayouts[turn++ % 4], "wgmma");
}

TEST_F(TypesGpu, F32x3ByWgmmaWithInfinities) { check_f32x3_beyond_the_finite("wgmma"); }

TEST_F(TypesGpu, F32x3WithInfinitiesAndWhatIsTooLargeToSplit) { check_f32x3_beyond_the_finite(); }

TEST_F(TypesGpu, ManySmallProducts) {
  Matmul matmul(options);
  for (const DType type : {DType::f32, DType::f16})
    check_product(matmul, typed_problem(Layout::nn, 8, 8, 8, type, type, MathMode::strict, 4096),
                  0);
}

TEST_F(TypesGpu, PackedOperands) {
  const Problem f32 = typed_problem<float, float>(Layout::nt, 320, 258, 131);
  Matmul strict = with_winner(f32, packing(f32, "simt", 1, 2));
  test::check_packed(*device, strict, f32);
  const Problem f16_problem = typed_problem<f16, float>(Layout::nn, 320, 258, 131);
  if (!find_template("mma").supports(f16_problem, device->info())) return;
  Matmul tensor = with_winner(f16_problem, packing(f16_problem, "mma", 1, 1));
  test::check_packed(*device, tensor, f16_problem);
}

TEST_F(TypesGpu, PacksRoundToTf32AsTheMultiplyStepDoes) { check_packs_that_round(); }

TEST_F(TypesGpu, AccuracyChoosesAMode) {
  const Matmul matmul(options);
  // Large enough that three products on tensor cores are faster than one without.
  const Problem problem = typed_problem<float, float>(Layout::nn, 2048, 2048, 2048);
  // The bounds at k = 2048: tf32 above 1e-3, f32x3 and emulated 2.5e-4, strict 1.2e-4.
  const bool tensor_cores = has(device->info().features, Feature::mma_tf32);
  EXPECT_EQ(matmul.fastest_within(problem, 3e-4),
            tensor_cores ? MathMode::f32x3 : MathMode::strict);
  EXPECT_EQ(matmul.fastest_within(problem, 1.5e-4), MathMode::strict);
  EXPECT_THROW(matmul.fastest_within(problem, 1e-9), Error);
}

}  // namespace
}  // namespace tilewise::types_gpu_test
