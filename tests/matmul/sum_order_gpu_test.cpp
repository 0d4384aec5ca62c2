// The order in which templates add products, on a GPU.
#include <iostream>

#include "tests/matmul/sum_order_checks.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::sum_order_gpu_test {
namespace {

struct SumOrdersGpu : test::SumOrderTest {
  SumOrdersGpu() : SumOrderTest("auto") {}
  void check_if_any(const char* name, DType operand, DType c, MathMode math, std::int64_t k,
                    int random) {
    const Problem problem = typed_problem(Layout::nt, 200, 96, k, operand, c, math, 1);
    if (find_template(name).supports(problem, device_->info()))
      check(name, operand, c, math, 200, 96, k, random);
  }
};

constexpr MathMode kStrict = MathMode::strict;

TEST_F(SumOrdersGpu, OfOrdinaryUnits) {
  check_if_any("naive", DType::bf16, DType::f32, kStrict, 300, 1);
  check_if_any("tiled", DType::f32, DType::f32, kStrict, 300, 1);
  check_if_any("simt", DType::f32, DType::f32, kStrict, 1000, 3);
  check("skinny", DType::bf16, DType::f32, kStrict, 3, 200, 3000, 3);
  check("small", DType::f32, DType::f32, kStrict, 32, 32, 64, 2);
  check("small", DType::bf16, DType::f32, kStrict, 32, 32, 64, 2);
}
TEST_F(SumOrdersGpu, OfTensorCores) {
  if (device_->info().target.major != 9) GTEST_SKIP() << "tried on capability 9 only";
  for (const char* name : {"mma", "wgmma"}) {
    check_if_any(name, DType::bf16, DType::f32, kStrict, 1000, 3);
    check_if_any(name, DType::f16, DType::f32, kStrict, 1000, 2);
    check_if_any(name, DType::f32, DType::f32, MathMode::tf32, 500, 2);
    check_if_any(name, DType::f32, DType::f32, MathMode::f32x3, 500, 2);
    check_if_any(name, DType::e5m2, DType::f32, kStrict, 480, 2);
  }
  check_if_any("mma", DType::f64, DType::f64, kStrict, 300, 3);
}

// Weights of fewer bits, and sums of blocks of k that have scales.
TEST_F(SumOrdersGpu, OfScaledAndNarrowProductsGiveEqualBits) {
  if (device_->info().target.major != 9) GTEST_SKIP() << "tried on capability 9 only";
  for (const char* epilogue : {"", "acc(s[k/128,j],z[k/128,j])", "acc(s[j,k/64])+bias[j]"})
    compare_bits(
        {{"wgmma"}, DType::bf16, DType::bf16, kStrict, 500, 256, 1024, "", DType::i8, epilogue},
        120);  // TMA reads a third of the draws' weights
  compare_bits(
      {{"wgmma"}, DType::e4m3, DType::bf16, kStrict, 500, 256, 1024, "", {}, "acc(b[j/128,k/128])"},
      12);
  EXPECT_GE(pairs_, 100);
}

// Parts of k that blocks share, and that a block adds itself.
TEST_F(SumOrdersGpu, OfPartsThatAreEqualGiveEqualBits) {
  if (device_->info().target.major != 9) GTEST_SKIP() << "tried on capability 9 only";
  for (const DType operand : {DType::bf16, DType::f16})
    compare_bits({{"mma", "wgmma"}, operand, operand, kStrict, 500, 256, 2000, "tensor16+parts512"},
                 12);
  compare_bits({{"mma", "wgmma"},
                DType::f32,
                DType::f32,
                MathMode::tf32,
                500,
                256,
                1000,
                "tensor8+parts256"},
               12);
  compare_bits({{"simt"}, DType::f32, DType::f32, kStrict, 500, 256, 1000, "fused+parts256"}, 12);
  EXPECT_GE(pairs_, 400);
}

/// One test for each of product_kinds(), because each compiles many kernels.
struct EqualBitsGpu : test::EqualBitsTest, testing::WithParamInterface<std::size_t> {
  EqualBitsGpu() : EqualBitsTest("auto") {}
};
TEST_P(EqualBitsGpu, OfEqualOrders) {
  const ProductKind& kind = product_kinds()[GetParam()];
  SCOPED_TRACE(kind_name(kind));
  if (kind.a != kind.b) GTEST_SKIP() << "narrow states no order";
  const Problem problem = typed_problem(Layout::nt, 500, 256, 1000, kind.a, kind.c, kind.math);
  std::vector<const char*> names;
  for (const char* name : {"naive", "tiled", "simt", "skinny", "mma", "wgmma"}) {
    Problem few = problem;
    few.m = 4;  // skinny
    if (find_template(name).supports(few, device_->info())) names.push_back(name);
  }
  if (names.empty()) GTEST_SKIP() << "not a product of " << device_->info().name;
  compare_bits({names, kind.a, kind.c, kind.math, 500, 256, 1000},
               90 / static_cast<int>(names.size()));
  compare_bits({{"small", "naive", "tiled"}, kind.a, kind.c, kind.math, 32, 32, 64}, 4);
  std::cout << kind_name(kind) << ": " << pairs_ << " pairs of " << configurations_.size()
            << " configurations, " << forms_.size() << " forms\n";
  EXPECT_GE(pairs_, 25);
  EXPECT_GE(forms_.size(), 8u);
}
INSTANTIATE_TEST_SUITE_P(EveryKind, EqualBitsGpu,
                         testing::Range(std::size_t{0}, product_kinds().size()));

}  // namespace
}  // namespace tilewise::sum_order_gpu_test
