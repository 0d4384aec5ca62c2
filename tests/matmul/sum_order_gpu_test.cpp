// The order in which templates add products, on a GPU.
#include "tests/matmul/sum_order_checks.hpp"

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

TEST_F(SumOrdersGpu, ThatAreEqualGiveEqualBits) {
  compare_bits({"naive", "tiled", "simt", "skinny"}, DType::f32, DType::f32, kStrict, 500, 200,
               1000, 12);
  compare_bits({"mma", "naive"}, DType::f64, DType::f64, kStrict, 300, 128, 500, 6);
  for (const auto& [operand, math] :
       {std::pair(DType::bf16, kStrict), std::pair(DType::f16, kStrict),
        std::pair(DType::f32, MathMode::tf32), std::pair(DType::f32, MathMode::f32x3),
        std::pair(DType::e4m3, kStrict), std::pair(DType::e4m3, MathMode::fast),
        std::pair(DType::e5m2, kStrict), std::pair(DType::e5m2, MathMode::fast)})
    compare_bits({"mma", "wgmma"}, operand, DType::f32, math, 500, 256, 1024, 12);
  // Parts of k that blocks share, and that a block adds itself.
  for (const DType operand : {DType::bf16, DType::f16})
    compare_bits({"mma", "wgmma"}, operand, operand, kStrict, 500, 256, 2000, 12,
                 "tensor16+parts512");
  compare_bits({"mma", "wgmma"}, DType::f32, DType::f32, MathMode::tf32, 500, 256, 1000, 12,
               "tensor8+parts256");
  EXPECT_GT(compared_, 30);
}

}  // namespace
}  // namespace tilewise::sum_order_gpu_test
