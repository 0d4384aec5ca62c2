// Batch-invariant products on the CPU executor.
#include <algorithm>

#include "matmul/kept_orders.hpp"
#include "tests/matmul/invariant_checks.hpp"

namespace tilewise::invariant_host_test {
namespace {

struct InvariantOnTheCpu : test::InvariantTest {
  InvariantOnTheCpu() : InvariantTest("host") {}

  KeptOrder kept(const std::string& order) const {
    return {order_key(problem_of(1)), gpu_key(device->info()), order, "2026-11-28T10:00:00Z"};
  }
  std::string why_refused(Matmul& matmul, const Problem& problem) {
    test::InvariantTest::Bytes a(4096), b(4096), c(4096);
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
    try {
      matmul(problem, call);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

constexpr MathMode kStrict = MathMode::strict;

TEST_F(InvariantOnTheCpu, RowsAreEqualWithNothingStored) {
  make(40, 21, 70, DType::f32, DType::f32, kStrict, true);
  Matmul matmul(options);
  check_rows(matmul, 24);
  EXPECT_GE(forms_.size(), 4u);
  EXPECT_EQ(matmul.kept_order(problem_of(7)), "fused");
  EXPECT_EQ(matmul.explain(problem_of(7)).order, "fused");
}

TEST_F(InvariantOnTheCpu, RowsAreEqualOfTensorCores) {
  make(40, 24, 72, DType::bf16, DType::bf16, kStrict, false);
  Matmul matmul(options);
  check_rows(matmul, 16);
  EXPECT_EQ(matmul.kept_order(problem_of(1)), "tensor16");
}

TEST_F(InvariantOnTheCpu, RowsAreEqualWithAnEpilogue) {
  with_epilogue_ = true;
  make(24, 16, 72, DType::f32, DType::f32, kStrict, true);
  store_random_winners({1, 24}, "fused");
  Matmul matmul(options);
  check_rows(matmul, 12);
}

TEST_F(InvariantOnTheCpu, RowsAreEqualWhateverIsStored) {
  make(24, 16, 256, DType::f32, DType::f32, kStrict, true);
  store_random_winners({1, 6, 24}, "fused");
  EXPECT_GE(stored_, 5);
  Matmul matmul(options);
  check_rows(matmul, 12);
}

// Sums of floats in another order have other bits.
TEST_F(InvariantOnTheCpu, AnOrderInPartsIsObeyedAndGivesOtherBits) {
  make(24, 16, 512, DType::f32, DType::f32, kStrict, true);
  Bytes whole;
  {
    Matmul matmul(options);
    whole = rows_of(matmul, 0, rows_, true);
  }
  Database::open(options.database).put(kept("fused+parts128"));
  Matmul matmul(options);
  check_rows(matmul, 12);
  EXPECT_EQ(matmul.kept_order(problem_of(3)), "fused+parts128");
  EXPECT_EQ(matmul.explain(problem_of(3)).order, "fused+parts128");
  EXPECT_NE(rows_of(matmul, 0, rows_, true), whole);
}

// A Matmul keeps what it has served once; the next one takes what is stored.
TEST_F(InvariantOnTheCpu, TheOrderStaysTheSameInAMatmul) {
  make(4, 16, 512, DType::f32, DType::f32, kStrict, true);
  Matmul matmul(options);
  EXPECT_EQ(matmul.kept_order(problem_of(1)), "fused");
  Database::open(options.database).put(kept("fused+parts128"));
  EXPECT_EQ(matmul.kept_order(problem_of(1)), "fused");
  EXPECT_EQ(Matmul(options).kept_order(problem_of(1)), "fused+parts128");
}

TEST_F(InvariantOnTheCpu, AnOrderThatNoKernelHasIsAnErrorAndNotOtherBits) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  for (const char* order : {"fused+parts27", "tensor16", "f32x3_swapped8"}) {
    Database::open(options.database).put(kept(order));
    Matmul matmul(options);
    EXPECT_NE(why_refused(matmul, problem_of(3)).find(order), std::string::npos) << order;
    Problem plain = problem_of(3);
    set_invariant(plain, false);
    EXPECT_EQ(why_refused(matmul, plain), "");
  }
}

TEST_F(InvariantOnTheCpu, AnOrderOfANewerVersionIsAnError) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  Database database = Database::open(options.database);
  KeptOrder newer = kept("fused");
  newer.sum_order = "pairwise";
  EXPECT_THROW(database.put(newer), Error) << "this version does not write it";
  EXPECT_THROW((void)order_of(newer), Error);
}

TEST_F(InvariantOnTheCpu, AnotherGpusOrderIsReported) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  KeptOrder other = kept("fused+parts128");
  other.gpu = "NVIDIA H200|9.0|132";
  Database::open(options.database).put(other);
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  EXPECT_EQ(Matmul(options).kept_order(problem_of(1)), "fused");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("NVIDIA H200"), std::string::npos) << warnings[0];
}

// Another process may have read it on the GPU of the bundle.
TEST_F(InvariantOnTheCpu, ABundleOfAnotherGpuIsReportedWhateverTheDatabaseHas) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  options.bundle = (folder / "app.tilewise").string();
  KeptOrder other = kept("fused+parts128");
  other.gpu = "NVIDIA H200|9.0|132";
  Database::open(options.bundle).put(other);
  Database::open(options.database).put(kept("fused"));
  Database::open(options.database).put(other);
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  EXPECT_EQ(Matmul(options).kept_order(problem_of(1)), "fused");
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& line) {
                            return line.starts_with("an order of sums is kept") &&
                                   line.find("NVIDIA H200") != std::string::npos;
                          }),
            1);
}

// All processes that read a bundle have its orders, whatever their machines have tuned.
TEST_F(InvariantOnTheCpu, TheBundlesOrderComesBeforeTheDatabases) {
  make(4, 16, 512, DType::f32, DType::f32, kStrict, true);
  options.bundle = (folder / "app.tilewise").string();
  Database::open(options.bundle).put(kept("fused+parts128"));
  Database::open(options.database).put(kept("fused"));
  EXPECT_EQ(Matmul(options).kept_order(problem_of(1)), "fused+parts128");
  Problem other = problem_of(1);
  other.n = 24;
  EXPECT_EQ(Matmul(options).kept_order(other), "fused");
}

TEST_F(InvariantOnTheCpu, HostPointersAreRefused) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  Matmul matmul(options);
  Bytes c(4 * 16 * 4);
  Call call;
  call.a = a_.data(), call.b = b_.data(), call.c = c.data();
  call.lda = call.ldb = 64, call.ldc = 16;
  try {
    matmul.host(problem_of(4), call);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

// A batch that shares A is one product of more columns, which would have another key.
TEST_F(InvariantOnTheCpu, ABatchThatSharesAStaysABatch) {
  make(5, 16, 512, DType::f32, DType::f32, kStrict, true);
  Database::open(options.database).put(kept("fused+parts128"));
  Matmul matmul(options);
  const Bytes one = rows_of(matmul, 0, 5, true);
  Problem batch = problem_of(5);
  batch.batch = 2;
  batch.n = 8;  // columns 0 to 7, and 8 to 15
  Problem half = problem_of(5);
  half.n = 8;
  KeptOrder of_half = kept("fused");
  of_half.problem = order_key(half);
  Database::open(options.database).put(of_half);
  Bytes c(5 * 16 * 4);
  Call call;
  call.a = a_.data(), call.b = b_.data(), call.c = c.data();
  call.lda = call.ldb = 512, call.ldc = 16;
  call.stride_a = 0, call.stride_b = 8 * 512, call.stride_c = 8;
  Matmul other(options);
  other(batch, call);
  EXPECT_NE(c, one) << "n = 8 has an order of its own";
  call.stride_b = call.stride_c = 0;
  Bytes left(5 * 16 * 4);
  call.c = left.data();
  other(half, call);
  for (int row = 0; row < 5; ++row)
    EXPECT_EQ(std::memcmp(left.data() + row * 64, c.data() + row * 64, 32), 0) << row;
}

TEST_F(InvariantOnTheCpu, WithoutASumThereIsNoOrder) {
  make(4, 16, 64, DType::f32, DType::f32, kStrict, true);
  Database::open(options.database).put(kept("tensor16"));
  Matmul matmul(options);
  Problem empty = problem_of(3);
  empty.k = 0;
  EXPECT_EQ(why_refused(matmul, empty), "");
  empty.k = 64, empty.m = 0;
  EXPECT_EQ(why_refused(matmul, empty), "");
}

TEST_F(InvariantOnTheCpu, PreparedProductsHaveTheSameBits) {
  make(24, 16, 512, DType::f32, DType::f32, kStrict, true);
  Database::open(options.database).put(kept("fused+parts128"));
  Matmul matmul(options), prepared(options);
  prepared.prepare(problem_of(24));
  prepared.prepare_range(problem_of(1), 8);
  EXPECT_EQ(rows_of(prepared, 0, 24, true), rows_of(matmul, 0, 24, true));
  EXPECT_EQ(rows_of(prepared, 3, 5, true), rows_of(matmul, 3, 5, true));
}

TEST_F(InvariantOnTheCpu, FingerprintsAreOfTheOrdersAlone) {
  make(4, 16, 512, DType::f32, DType::f32, kStrict, true);
  const Problem one = problem_of(1),
                other = typed_problem(Layout::nt, 1, 32, 512, DType::f32, DType::f32);
  const auto of = [&](const std::vector<Problem>& problems) {
    return Matmul(options).fingerprint(problems);
  };
  const std::string both = of({one, other});
  EXPECT_EQ(both.size(), 32u);
  EXPECT_EQ(both.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(of({other, problem_of(4096), one, one}), both);
  EXPECT_NE(of({one}), both);
  EXPECT_NE(of({}), of({one}));
  Database::open(options.database).put(kept("fused"));
  EXPECT_EQ(of({one, other}), both) << "the default order, now kept";
  Database::open(options.database).put(kept("fused+parts128"));
  EXPECT_NE(of({one, other}), both);
}

}  // namespace
}  // namespace tilewise::invariant_host_test
