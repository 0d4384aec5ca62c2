// Products on the CPU executor compared with the reference: the entry points as used by a program
// without a GPU.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "device/machines.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"

namespace tilewise::matmul_host_test {
namespace {

class MatmulOnTheCpu : public testing::Test {
 protected:
  MatmulOnTheCpu() {
    std::string pattern = (std::filesystem::temp_directory_path() / "matmul-host-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    options_.device = "host";
    options_.database = (folder_ / "none.db").string();
    options_.warn = [](const std::string&) {};
  }
  ~MatmulOnTheCpu() override { std::filesystem::remove_all(folder_); }

  static std::vector<float> integers(std::int64_t count, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& x : values) x = float(int(generator() % 7) - 3);
    return values;
  }
  static float expected(Layout layout, const std::vector<float>& a, const std::vector<float>& b,
                        std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t i,
                        std::int64_t j) {
    float sum = 0;
    for (std::int64_t l = 0; l < k; ++l)
      sum += a[std::size_t(a_transposed(layout) ? l * m + i : i * k + l)] *
             b[std::size_t(b_transposed(layout) ? j * k + l : l * n + j)];
    return sum;
  }

  std::filesystem::path folder_;
  MatmulOptions options_;
};

TEST_F(MatmulOnTheCpu, EveryLayoutIsExactOnHostAndOnDevicePointers) {
  Matmul matmul(options_);
  const std::int64_t m = 37, n = 70, k = 41;
  const auto a = integers(m * k, 1), b = integers(k * n, 2);
  for (const Layout layout : test::kLayouts) {
    const std::int64_t lda = a_transposed(layout) ? m : k, ldb = b_transposed(layout) ? k : n;
    std::vector<float> c(std::size_t(m * n), 2.0f), on_host = c;
    matmul(layout, m, n, k, 2, a.data(), lda, b.data(), ldb, 3, c.data(), n);
    matmul.host(layout, m, n, k, 2, a.data(), lda, b.data(), ldb, 3, on_host.data(), n);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        ASSERT_EQ(c[std::size_t(i * n + j)], 2 * expected(layout, a, b, m, n, k, i, j) + 6)
            << to_string(layout) << ' ' << i << ' ' << j;
    EXPECT_EQ(c, on_host);
  }
}

TEST_F(MatmulOnTheCpu, ThreadsMayCallAtTheSameTime) {
  Matmul matmul(options_);
  const std::int64_t n = 33;
  const auto a = integers(n * n, 1), b = integers(n * n, 2);
  std::vector<std::vector<float>> results(4, std::vector<float>(std::size_t(n * n)));
  std::vector<std::jthread> threads;
  for (auto& c : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        matmul(Layout::nn, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    });
  threads.clear();
  for (const auto& c : results) EXPECT_EQ(c, results.front());
  EXPECT_EQ(results.front()[5], expected(Layout::nn, a, b, n, n, n, 0, 5));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their frames are larger
// docs/embedding.md states 128 KiB.
TEST_F(MatmulOnTheCpu, AThreadWithASmallStackMayMakeTheFirstProduct) {
  struct Work {
    const MatmulOptions& options;
    float c = 0;
  } work{options_};
  const auto multiply = [](void* given) -> void* {
    auto& to = *static_cast<Work*>(given);
    const float a = 3, b = 5;
    Matmul matmul(to.options);
    matmul(Layout::nn, 1, 1, 1, 1, &a, 1, &b, 1, 0, &to.c, 1);
    return nullptr;
  };
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 << 10), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, multiply, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(work.c, 15);
}
#endif

TEST_F(MatmulOnTheCpu, WithoutACompilerTheErrorSaysWhatToInstall) {
  setenv("TILEWISE_CXX", "/nowhere/c++", 1);
  Matmul matmul(options_);
  const std::vector<float> a(4);
  std::vector<float> c(4);
  try {
    matmul(Layout::nn, 2, 2, 2, 1, a.data(), 2, a.data(), 2, 0, c.data(), 2);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
    EXPECT_NE(std::string(error.what()).find("a C++ compiler"), std::string::npos) << error.what();
  }
  unsetenv("TILEWISE_CXX");
}

TEST_F(MatmulOnTheCpu, ACapturedProductRunsWithTheGraph) {
  Matmul matmul(options_);
  const auto device = open_device("host");
  const std::int64_t n = 20;
  const auto a = integers(n * n, 1), b = integers(n * n, 2);
  std::vector<float> c(std::size_t(n * n));
  const Stream stream = device->create_stream();
  const auto product = [&] {
    matmul(Layout::nn, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n, stream);
  };
  product();
  std::fill(c.begin(), c.end(), 0.0f);
  const auto graph = device->capture(stream, product);
  EXPECT_EQ(c[3], 0.0f);
  graph->launch(stream);
  EXPECT_EQ(c[3], expected(Layout::nn, a, b, n, n, n, 0, 3));
  device->destroy_stream(stream);
}

TEST_F(MatmulOnTheCpu, ACapturedProductRunsAfterItsChoiceWasReplaced) {
  Matmul matmul(options_);
  const auto device = open_device("host");
  const std::int64_t n = 20;
  const auto a = integers(n * n, 1), b = integers(n * n, 2);
  std::vector<float> c(std::size_t(n * n));
  const Stream stream = device->create_stream();
  matmul.prepare(typed_problem<float, float>(Layout::nn, n, n, n));
  const auto graph = device->capture(stream, [&] {
    matmul(Layout::nn, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n, stream);
  });
  for (std::int64_t m = 1; m <= 5000; ++m)
    matmul.prepare(typed_problem<float, float>(Layout::nn, 1000 + m, n, n));
  graph->launch(stream);
  EXPECT_EQ(c[3], expected(Layout::nn, a, b, n, n, n, 0, 3));
  device->destroy_stream(stream);
}

}  // namespace
}  // namespace tilewise::matmul_host_test
