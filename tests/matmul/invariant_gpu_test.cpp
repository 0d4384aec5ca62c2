// Batch-invariant products on the GPU, by random winners. TILEWISE_FULL=1: some seven times as
// many.
#include "tests/matmul/invariant_checks.hpp"

namespace tilewise::invariant_gpu_test {
namespace {

struct InvariantGpu : test::InvariantTest {
  InvariantGpu() : InvariantTest("auto") {}

  void check(std::int64_t n, std::int64_t k, DType type, DType result, MathMode math,
             bool b_transposed, const std::string& order = "") {
    make(1500, n, k, type, result, math, b_transposed);
    try {
      (void)default_order(order_key(problem_of(1)), device->info());
    } catch (const Error&) {
      return;  // not on this GPU
    }
    std::string kept;
    {
      Matmul matmul(options);
      kept = order.empty() ? matmul.kept_order(problem_of(1)) : order;
    }
    Database::open(options.database)
        .put(KeptOrder{order_key(problem_of(1)), gpu_key(device->info()), kept, ""});
    store_random_winners({1, 3, 16, 40, 128, 500, 1500}, kept);
    Matmul matmul(options);
    check_rows(matmul, std::getenv("TILEWISE_FULL") ? 400 : 60);
    ++checked_;
  }
  int checked_ = 0;
};

constexpr MathMode kStrict = MathMode::strict;

TEST_F(InvariantGpu, RowsOfEveryKindAreEqual) {
  bool transposed = false;
  int kinds = 0;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == kind.b) {
      check(192, 520, kind.a, kind.c, kind.math, transposed = !transposed);
      ++kinds;
    }
  EXPECT_GE(checked_, device->info().target.major == 9 ? kinds : 3);
}
TEST_F(InvariantGpu, RowsOfOddSizesAreEqual) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32})
    for (const bool transposed : {false, true}) check(1023, 1037, type, type, kStrict, transposed);
}
TEST_F(InvariantGpu, RowsWithAnEpilogueAreEqual) {
  with_epilogue_ = true;
  for (const DType type : {DType::bf16, DType::f32}) check(200, 520, type, type, kStrict, true);
}
TEST_F(InvariantGpu, RowsAreEqualInAnOrderInParts) {
  check(512, 4096, DType::bf16, DType::bf16, kStrict, true, "tensor16+parts1024");
  check(512, 8192, DType::f16, DType::f16, kStrict, true, "tensor16+parts1024+rows4");
  check(256, 2048, DType::f32, DType::f32, kStrict, false, "fused+parts512");
}

}  // namespace
}  // namespace tilewise::invariant_gpu_test
