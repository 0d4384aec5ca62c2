// Batches by pointers, and batches that are one product, on the CPU executor.
#include "tests/matmul/pointer_checks.hpp"

namespace tilewise::batches_host_test {
namespace {

struct BatchesOnTheCpu : test::BatchesServed {
  BatchesOnTheCpu() : BatchesServed("host") {}
};
TEST_F(BatchesOnTheCpu, EveryKindByPointers) { check_every_kind_by_pointers(3); }
TEST_F(BatchesOnTheCpu, OnePointerIsABatchToo) {
  Matmul matmul(options);
  check_by_pointers(matmul, typed_problem<float, float>(Layout::tn, 9, 70, 33), 1);
}
TEST_F(BatchesOnTheCpu, EveryPlaceWhereABatchIsOneProduct) { check_folded_placements(); }
TEST_F(BatchesOnTheCpu, EveryKindFolded) {
  int kinds = 0;
  for (const ProductKind& kind : product_kinds()) check_folded(kind, test::kLayouts[kinds++ % 4]);
}

struct HopperBatchesOnTheCpu : test::BatchesServed {
  HopperBatchesOnTheCpu() : BatchesServed("host:sm_90a") {}
};
TEST_F(HopperBatchesOnTheCpu, EveryTemplateByPointers) { check_templates_by_pointers(1); }

TEST_F(BatchesOnTheCpu, TypedArraysNeedNoProblem) {
  Matmul matmul(options);
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[] = {-1, -1, -1, -1};
  const float* as[] = {a, a + 2};
  const float* bs[] = {b + 2, b};
  float* cs[] = {c + 2, c};
  // Multiplies 1 x 2 by 2 x 1: {1 2} {7 8}, {3 4} {5 6}.
  matmul.batched(Layout::nn, 1, 1, 2, 2.0F, as, 2, bs, 1, 0.0F, cs, 1, 2);
  EXPECT_THAT(c, testing::ElementsAre(2 * (15.0F + 24), -1, 2 * (7.0F + 16), -1));
}

TEST_F(BatchesOnTheCpu, WithoutASumNoArrayOfOperandsIsRead) { check_without_a_sum(); }
TEST_F(HopperBatchesOnTheCpu, WithoutASumNoArrayOfOperandsIsRead) { check_without_a_sum(); }

TEST_F(BatchesOnTheCpu, BadArraysAreRefused) {
  Matmul matmul(options);
  const float a[] = {1, 2};
  float c[] = {0, 0};
  const float* as[] = {a, a + 1};
  float* cs[] = {c, c + 1};
  const auto message = [&](auto call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  const float* const* none = nullptr;
  const auto* const odd =
      reinterpret_cast<const float* const*>(reinterpret_cast<const char*>(as) + 4);
  EXPECT_THAT(message([&] { matmul.batched(Layout::nn, 1, 1, 1, 1, none, 1, as, 1, 0, cs, 1, 2); }),
              testing::HasSubstr("array of pointers to A is a null pointer"));
  EXPECT_THAT(message([&] { matmul.batched(Layout::nn, 1, 1, 1, 1, as, 1, odd, 1, 0, cs, 1, 2); }),
              testing::HasSubstr("array of pointers to B is not a multiple of 8 bytes"));
  EXPECT_THAT(message([&] {
                matmul.batched(Layout::nn, 1, 1, 1, 1, as, 1, as, 1, 0, cs, 1, 2, nullptr,
                               MathMode::strict, 3);
              }),
              testing::HasSubstr("the alignment of A is 3 bytes"));
  Problem problem = typed_problem<float, float>(Layout::nn, 1, 1, 1, MathMode::strict, 2);
  problem.pointers = true;
  EXPECT_THAT(message([&] { matmul.pack_b(problem, as, 1); }), testing::HasSubstr("by pointers"));
  Call call;
  call.a = as, call.b = as, call.c = cs, call.lda = call.ldb = call.ldc = 1;
  EXPECT_THAT(message([&] { matmul.host(problem, call); }), testing::HasSubstr("by pointers"));
}

}  // namespace
}  // namespace tilewise::batches_host_test
