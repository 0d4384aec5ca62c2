// cuBLAS as a baseline, on a real GPU: its products must be right to be compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_fixture.hpp"

namespace tilewise::test {
namespace {

class CublasGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    std::string why;
    cublas_ = cuda::load_cublas(*device_, &why);
    if (!cublas_) GTEST_SKIP() << why;
  }
  void TearDown() override {
    cublas_.reset();
    GpuTest::TearDown();
  }
  static std::vector<float> integers(std::int64_t count, int seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed)) % 11) - 5;
    }
    return values;
  }
  std::unique_ptr<BaselineLibrary> cublas_;
};

TEST_F(CublasGpuTest, SaysItsVersionAndWhatItSupports) {
  EXPECT_EQ(cublas_->name(), "cuBLAS");
  EXPECT_THAT(cublas_->version(), testing::MatchesRegex("1[2-9]\\.[0-9]+\\.[0-9]+"));
  Problem problem;
  EXPECT_FALSE(cublas_->supports(problem));
  problem.m = problem.n = problem.k = 1;
  EXPECT_TRUE(cublas_->supports(problem));
}

/// The product by definition, in integers small enough for f32 to hold exactly.
void reference(const Problem& p, const Call& call, const std::vector<float>& a,
               const std::vector<float>& b, std::vector<float>& c) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        const auto at_a = a_transposed(p.layout) ? l * call.lda + i : i * call.lda + l;
        const auto at_b = b_transposed(p.layout) ? j * call.ldb + l : l * call.ldb + j;
        sum += static_cast<double>(a[static_cast<std::size_t>(at_a)]) *
               static_cast<double>(b[static_cast<std::size_t>(at_b)]);
      }
      float& value = c[static_cast<std::size_t>(i * call.ldc + j)];
      value = static_cast<float>(call.alpha * sum + call.beta * static_cast<double>(value));
    }
  }
}

TEST_F(CublasGpuTest, AllLayoutsAreRightPlainAndCaptured) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    Problem problem;
    problem.layout = layout;
    problem.m = 33;
    problem.n = 17;
    problem.k = 25;
    Call call;
    call.lda = min_lda(problem) + 3;
    call.ldb = min_ldb(problem) + 2;
    call.ldc = min_ldc(problem) + 5;
    call.alpha = 2;
    call.beta = -1;
    call.stream = stream_;
    const auto a = integers(rows_a(problem) * call.lda, 1);
    const auto b = integers(rows_b(problem) * call.ldb, 5);
    const auto start = integers(problem.m * call.ldc, 8);
    const DeviceBuffer on_a = upload(a), on_b = upload(b), on_c = upload(start);
    call.a = on_a.data();
    call.b = on_b.data();
    call.c = on_c.data();
    auto expected = start;
    reference(problem, call, a, b, expected);
    cublas_->multiply(problem, call);
    EXPECT_EQ(read<float>(on_c.data(), start.size()), expected) << to_string(layout);

    const auto graph = device_->capture(stream_, [&] { cublas_->multiply(problem, call); });
    device_->copy_to_device(on_c.data(), start.data(), on_c.bytes(), stream_);
    graph->launch(stream_);
    EXPECT_EQ(read<float>(on_c.data(), start.size()), expected) << to_string(layout) << " captured";
  }
}

TEST_F(CublasGpuTest, ABatchIsRight) {
  Problem problem;
  problem.m = problem.n = problem.k = 8;
  problem.batch = 3;
  Call call;
  call.lda = call.ldb = call.ldc = 8;
  call.stride_a = 64;
  call.stride_b = 0;
  call.stride_c = 64;
  call.stream = stream_;
  const auto a = integers(3 * 64, 2), b = integers(64, 3);
  const DeviceBuffer on_a = upload(a), on_b = upload(b), on_c = filled(3 * 64, 9.0F);
  call.a = on_a.data();
  call.b = on_b.data();
  call.c = on_c.data();
  cublas_->multiply(problem, call);
  const auto product = read<float>(on_c.data(), 3 * 64);
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    std::vector<float> expected(64, 0.0F);
    reference(problem, call, {a.begin() + i * 64, a.begin() + (i + 1) * 64}, b, expected);
    EXPECT_EQ(std::vector<float>(product.begin() + i * 64, product.begin() + (i + 1) * 64),
              expected);
  }
}

TEST_F(CublasGpuTest, PedanticIsRight) {
  const auto pedantic = cuda::load_cublas(*device_, nullptr, cuda::CublasMath::pedantic);
  ASSERT_NE(pedantic, nullptr);
  Problem problem;
  problem.m = 65, problem.n = 33, problem.k = 47;
  Call call;
  call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
  call.stream = stream_;
  const auto a = integers(problem.m * problem.k, 3), b = integers(problem.k * problem.n, 4);
  const DeviceBuffer on_a = upload(a), on_b = upload(b), on_c = filled(65 * 33, 9.0F);
  call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
  std::vector<float> expected(65 * 33, 0.0F);
  reference(problem, call, a, b, expected);
  pedantic->multiply(problem, call);
  EXPECT_EQ(read<float>(on_c.data(), expected.size()), expected);
}

/// cublasLt's candidates for a problem whose pointers are `offset` elements into their allocations.
class CublasLtGpuTest : public CublasGpuTest {
 protected:
  void SetUp() override {
    CublasGpuTest::SetUp();
    if (IsSkipped()) return;
    std::string why;
    lt_ = cuda::load_cublas_lt(*device_, &why);
    if (!lt_) GTEST_SKIP() << why;
  }
  void TearDown() override {
    lt_.reset();
    CublasGpuTest::TearDown();
  }

  /// Every candidate's product must be right, as enqueued and captured.
  void expect_all_right(const Problem& problem, std::int64_t offset) {
    Call call;
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
    call.alpha = 2;
    call.stream = stream_;
    const auto a = integers(rows_a(problem) * call.lda + offset, 1);
    const auto b = integers(rows_b(problem) * call.ldb + offset, 5);
    const auto count = static_cast<std::size_t>(problem.m * problem.n);
    const DeviceBuffer on_a = upload(a), on_b = upload(b);
    const DeviceBuffer on_c(*device_, static_cast<std::int64_t>(count) * 4 + offset * 4);
    call.a = static_cast<const float*>(on_a.data()) + offset;
    call.b = static_cast<const float*>(on_b.data()) + offset;
    call.c = static_cast<float*>(on_c.data()) + offset;
    std::vector<float> expected(count, 0.0F);
    reference(problem, call, {a.begin() + offset, a.end()}, {b.begin() + offset, b.end()},
              expected);
    const int found = lt_->ask(problem, {&call, 1}, 8);
    EXPECT_GT(found, 0);
    EXPECT_LE(found, 8);
    const auto poison = [&] {
      device_->fill32(on_c.data(), 0x7FC00000, on_c.bytes() / 4, stream_);
    };
    for (int candidate = 0; candidate < found; ++candidate) {
      poison();
      lt_->multiply(candidate, call);
      EXPECT_EQ(read<float>(call.c, count), expected)
          << to_string(problem) << " candidate " << candidate;
    }
    const auto graph = device_->capture(stream_, [&] { lt_->multiply(0, call); });
    poison();
    graph->launch(stream_);
    EXPECT_EQ(read<float>(call.c, count), expected) << to_string(problem) << " captured";
  }
  std::unique_ptr<cuda::CublasLt> lt_;
};

TEST_F(CublasLtGpuTest, AllCandidatesAreRightInAllLayoutsAlignedAndNot) {
  EXPECT_THAT(lt_->version(), testing::MatchesRegex("1[2-9]\\.[0-9]+\\.[0-9]+"));
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    Problem problem;
    problem.layout = layout;
    problem.m = 132, problem.n = 68, problem.k = 92;
    expect_all_right(problem, 0);
    expect_all_right(problem, 1);
    problem.m = 33, problem.n = 17, problem.k = 25;
    expect_all_right(problem, 0);
  }
  Problem row;
  row.m = 1, row.n = 256, row.k = 512;
  expect_all_right(row, 0);
}

TEST_F(CublasLtGpuTest, ABatchIsRefused) {
  Problem problem;
  problem.m = problem.n = problem.k = 8;
  problem.batch = 2;
  const Call call;
  EXPECT_THROW(lt_->ask(problem, {&call, 1}, 8), Error);
}

}  // namespace
}  // namespace tilewise::test
