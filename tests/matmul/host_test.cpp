#include <cmath>
#include <limits>
#include <tuple>

#include "matmul_fixture.hpp"

namespace tilewise::host_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct HostCase {
  Layout layout;
  std::int64_t m, n, k, extra;
  float alpha, beta;
};

class HostTest : public MatmulTest, public testing::WithParamInterface<HostCase> {};

std::vector<float> matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, int seed) {
  std::vector<float> values(static_cast<std::size_t>(rows * ld), kNan);  // canaries in the padding
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      values[static_cast<std::size_t>(i * ld + j)] = float((i * 3 + j * 5 + seed) % 7) - 3;
  return values;
}

TEST_P(HostTest, MultipliesAndLeavesPaddingAlone) {
  const HostCase& x = GetParam();
  const Problem p = problem_of(x.m, x.n, x.k, x.layout);
  const std::int64_t lda = min_lda(p) + x.extra, ldb = min_ldb(p) + x.extra, ldc = x.n + x.extra;
  const std::vector<float> a = matrix(rows_a(p), min_lda(p), lda, 1);
  const std::vector<float> b = matrix(rows_b(p), min_ldb(p), ldb, 2);
  std::vector<float> c = matrix(x.m, x.n, ldc, 3);
  const std::vector<float> before = c;
  Matmul multiply = make_matmul(std::move(parts));
  multiply.host(x.layout, x.m, x.n, x.k, x.alpha, a.data(), lda, b.data(), ldb, x.beta, c.data(),
                ldc);
  for (std::int64_t i = 0; i < x.m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * ldc + j);
      if (j >= x.n) {
        ASSERT_TRUE(std::isnan(c[at])) << "padding at row " << i;
        continue;
      }
      float sum = 0;
      for (std::int64_t q = 0; q < x.k; ++q)
        sum += a[static_cast<std::size_t>(a_transposed(x.layout) ? q * lda + i : i * lda + q)] *
               b[static_cast<std::size_t>(b_transposed(x.layout) ? j * ldb + q : q * ldb + j)];
      ASSERT_EQ(c[at], x.alpha * sum + (x.beta == 0 ? 0 : x.beta * before[at]))
          << "row " << i << " column " << j;
    }
  EXPECT_EQ(device->live_buffers, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, HostTest,
                         testing::Values(HostCase{Layout::nn, 5, 6, 7, 0, 1, 0},
                                         HostCase{Layout::nn, 5, 6, 7, 3, 2, 0.5F},
                                         HostCase{Layout::nt, 1, 9, 4, 1, 1, 0},
                                         HostCase{Layout::tn, 8, 2, 3, 2, -1, 1},
                                         HostCase{Layout::tt, 4, 4, 4, 5, 1, 0},
                                         HostCase{Layout::nn, 3, 4, 0, 1, 1, 2},
                                         // rows beyond one part of 8 MiB
                                         HostCase{Layout::nn, 1100, 2048, 1, 1, 1, 1}));

TEST_F(MatmulTest, HostCopiesOnlyWhatIsRead) {
  Matmul multiply = make_matmul(std::move(parts));
  std::vector<float> a(6, 1), b(6, 1), c(4, kNan);
  multiply.host(Layout::nn, 2, 2, 3, 1, a.data(), 3, b.data(), 2, 0, c.data(), 2);
  EXPECT_EQ(device->uploaded_bytes, 48) << "beta = 0 does not upload C";
  EXPECT_EQ(device->downloaded_bytes, 16);
  EXPECT_THAT(c, testing::Each(3.0F));
  device->uploaded_bytes = 0;
  multiply.host(Layout::nn, 2, 2, 3, 0, nullptr, 3, nullptr, 2, 2, c.data(), 2);
  EXPECT_EQ(device->uploaded_bytes, 16) << "alpha = 0 uploads neither A nor B";
  EXPECT_THAT(c, testing::Each(6.0F));
  multiply.host(Layout::nn, 0, 2, 3, 1, nullptr, 3, nullptr, 2, 0, nullptr, 2);
}

TEST_F(MatmulTest, HostRowsMayBeFarApart) {
  // Only a few pages are read, because the padding is not copied.
  const std::int64_t lda = std::int64_t{1} << 26;
  const auto whole = static_cast<std::size_t>(2 * lda + 1) * sizeof(float);
  std::unique_ptr<float, void (*)(void*)> a(static_cast<float*>(std::calloc(whole, 1)), std::free);
  ASSERT_TRUE(a);
  for (std::int64_t i = 0; i < 3; ++i) a.get()[i * lda] = float(i + 1);
  const float b = 2;
  float c[3] = {};
  Matmul multiply = make_matmul(std::move(parts));
  multiply.host(Layout::nn, 3, 1, 1, 1, a.get(), lda, &b, 1, 0, c, 1);
  EXPECT_THAT(c, testing::ElementsAre(2, 4, 6));
  EXPECT_EQ(device->uploaded_bytes, 16);
}

TEST_F(MatmulTest, HostSaysWhatIsNeededAndFree) {
  Matmul multiply = make_matmul(std::move(parts));
  device->free_bytes = 300'000;
  std::vector<float> a(1024 * 1024), b(1024 * 1024), c(1024 * 1024);
  try {
    multiply.host(Layout::nn, 1024, 1024, 1024, 1, a.data(), 1024, b.data(), 1024, 0, c.data(),
                  1024);
    FAIL() << "it cannot have fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    // Three tiles of 256 x 256; 1/16 of the free memory is kept.
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("needs 786432 bytes"), HasSubstr("300000 bytes are free"),
                      HasSubstr("may have 281250"), HasSubstr("1024x1024x1024")));
  }
  EXPECT_EQ(device->live_buffers, 0);
}

TEST_F(MatmulTest, HostRefusesABadCall) {
  Matmul multiply = make_matmul(std::move(parts));
  float x = 0;
  EXPECT_THROW(multiply.host(Layout::nn, 1, 1, 1, 1, &x, 0, &x, 1, 0, &x, 1), Error);
  EXPECT_THROW(multiply.host(Layout::nn, 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1), Error);
  EXPECT_EQ(device->uploaded_bytes, 0);
}

}  // namespace
}  // namespace tilewise::host_test
