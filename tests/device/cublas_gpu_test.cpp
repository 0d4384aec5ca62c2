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

}  // namespace
}  // namespace tilewise::test
