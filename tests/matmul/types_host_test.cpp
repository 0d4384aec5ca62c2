// Every kind of product on the CPU executor, through the entry points.
#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::types_host_test {
namespace {

struct TypesOnTheCpu : test::Served {
  TypesOnTheCpu() : Served("host") {}
};

TEST_F(TypesOnTheCpu, EveryKindInTurnBatchedOrNot) {
  Matmul matmul(options);
  int kinds = 0;
  for (const ProductKind& kind : test::one_type_kinds()) {
    const Layout layout = test::kLayouts[kinds++ % 4];
    const Problem problem =
        typed_problem(layout, 9, 7, 13, kind.a, kind.b, kind.c, kind.math, kinds % 2 ? 3 : 1);
    if (kind.math != MathMode::strict && is_unsupported(matmul, problem)) continue;
    check_product(matmul, problem, kinds % 3);
  }
}

TEST_F(TypesOnTheCpu, TypedPointersNeedNoProblem) {
  Matmul matmul(options);
  const std::vector<double> a{1, 2, 3, 4}, b{0.1, 0.2, 0.3, 0.4};
  std::vector<double> c(4), again(4);
  matmul(Layout::nn, 2, 2, 2, 1, a.data(), 2, b.data(), 2, 0, c.data(), 2);
  EXPECT_DOUBLE_EQ(c[3], 3 * 0.2 + 4 * 0.4) << "f64 all the way";
  matmul.host(Layout::nn, 2, 2, 2, 1, a.data(), 2, b.data(), 2, 0, again.data(), 2);
  EXPECT_EQ(again, c);

  const std::vector<std::int8_t> i{100, 100, -128, 1}, j{100, 1, 100, 2};
  std::vector<std::int32_t> sums(4, 5);
  matmul(Layout::nn, 2, 2, 2, 2, i.data(), 2, j.data(), 2, -3, sums.data(), 2);
  EXPECT_EQ(sums, (std::vector<std::int32_t>{39985, 585, -25415, -267}));

  const std::vector<f16> h{{0x3c00}, {0x4000}, {0x3c00}, {0x3c00}};  // 1 2 1 1
  std::vector<float> wide(4);
  std::vector<f16> narrow(4);
  matmul(Layout::nn, 2, 2, 2, 0.5F, h.data(), 2, h.data(), 2, 0, wide.data(), 2);
  EXPECT_EQ(wide, (std::vector<float>{1.5F, 2, 1, 1.5F}));
  matmul(Layout::nn, 2, 2, 2, 0.5F, h.data(), 2, h.data(), 2, 0, narrow.data(), 2);
  EXPECT_EQ(narrow[0].bits, 0x3e00);
}

// BLAS: with k = 0 the result is beta C, of any type, mode, layout and alignment.
TEST_F(TypesOnTheCpu, WithoutASumEveryKindGivesBetaC) {
  Matmul matmul(options);
  for (const ProductKind& kind : test::one_type_kinds())
    for (const Layout layout : test::kLayouts)
      for (const std::int64_t size : {1, 5, 8, 64}) {
        if (kind.a != DType::f32 && (layout != Layout::nn || size != 5)) continue;
        const Problem problem =
            typed_problem(layout, size, size, 0, kind.a, kind.b, kind.c, kind.math);
        std::vector<std::byte> c(static_cast<std::size_t>(size * size * bytes_of(kind.c) + 16));
        for (const int shift : {0, int(bytes_of(kind.c))}) {
          std::fill(c.begin(), c.end(), std::byte{0x77});
          Call call;
          call.c = c.data() + shift;
          call.lda = a_transposed(layout) ? size : 1, call.ldb = b_transposed(layout) ? 1 : size;
          call.ldc = size;
          call.beta = 0;
          ASSERT_NO_THROW(matmul(problem, call)) << to_string(problem) << " shifted " << shift;
          for (std::int64_t i = 0; i < size * size * bytes_of(kind.c); ++i)
            ASSERT_EQ(c[static_cast<std::size_t>(i + shift)], std::byte{0}) << to_string(problem);
          ASSERT_EQ(c[static_cast<std::size_t>(size * size * bytes_of(kind.c) + shift)],
                    std::byte{0x77});
          EXPECT_NO_THROW(matmul.explain(problem));
          EXPECT_NO_THROW(matmul.prepare(problem));
        }
      }
}

struct SpecialNumbersOnTheCpu : test::Served {
  SpecialNumbersOnTheCpu() : Served("host:sm_90a") {}
};

TEST_F(SpecialNumbersOnTheCpu, NanAndInfinityStayWhereTheyBelong) {
  std::size_t turn = 0;
  for (const ProductKind& kind : test::one_type_kinds())
    check_nan_and_infinity(kind, test::kLayouts[turn++ % 4]);
}

TEST_F(SpecialNumbersOnTheCpu, ByWgmmaToo) {
  std::size_t turn = 0;
  for (const ProductKind& kind : test::one_type_kinds())
    check_nan_and_infinity(kind, test::kLayouts[turn++ % 4], "wgmma");
}

TEST_F(SpecialNumbersOnTheCpu, F32x3ByWgmma) { check_f32x3_beyond_the_finite("wgmma"); }

TEST_F(SpecialNumbersOnTheCpu, PacksRoundToTf32AsTheMultiplyStepDoes) { check_packs_that_round(); }

TEST_F(SpecialNumbersOnTheCpu, F32x3WithInfinitiesAndWhatIsTooLargeToSplit) {
  check_f32x3_beyond_the_finite();
}

TEST_F(TypesOnTheCpu, HostRefusesWhatIsOnTheDevice) {
  Matmul matmul(options);
  const Problem problem = typed_problem<double, double>(Layout::nn, 2, 2, 2);
  test::WholeNumbers job(problem, 0, 1);
  Call call = job.call(job.a.at(0), job.b.at(0), job.c.at(0));
  const double one = 1;
  call.alpha_device = &one;
  EXPECT_THROW(matmul.host(problem, call), Error);
  call.alpha_device = nullptr;
  const PackedOperand b = matmul.pack_b(problem, call.b, call.ldb);
  call.packed_b = &b;
  EXPECT_THROW(matmul.host(problem, call), Error);
}

}  // namespace
}  // namespace tilewise::types_host_test
