#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>

#include "device/cuda/cuda.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::matmul_gpu_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

/// A stored matrix with `offset` elements before it and canaries between its rows.
struct Matrix {
  Matrix(std::int64_t rows_, std::int64_t columns_, std::int64_t ld_, std::int64_t offset_)
      : rows(rows_),
        columns(columns_),
        ld(ld_),
        offset(offset_),
        values(static_cast<std::size_t>(offset_ + std::max<std::int64_t>(rows_, 1) * ld_ + 1),
               kNan) {}
  float& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(offset + i * ld + j)];
  }
  float at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(offset + i * ld + j)];
  }
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) at(i, j) = uniform(random);
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values.size() * sizeof(float)); }

  std::int64_t rows, columns, ld, offset;
  std::vector<float> values;
};

/// One product with its host data.
struct Job {
  Job(Layout layout_, std::int64_t m_, std::int64_t n_, std::int64_t k_, std::int64_t extra = 0,
      std::int64_t offset = 0)
      : layout(layout_),
        m(m_),
        n(n_),
        k(k_),
        a(a_transposed(layout_) ? k_ : m_, a_transposed(layout_) ? m_ : k_,
          (a_transposed(layout_) ? m_ : k_) + extra, offset),
        b(b_transposed(layout_) ? n_ : k_, b_transposed(layout_) ? k_ : n_,
          (b_transposed(layout_) ? k_ : n_) + extra, offset),
        c(m_, n_, n_ + extra, offset) {}
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    a.fill(random);
    b.fill(random);
    c.fill(random);
  }
  float op_a(std::int64_t i, std::int64_t p) const {
    return a_transposed(layout) ? a.at(p, i) : a.at(i, p);
  }
  float op_b(std::int64_t p, std::int64_t j) const {
    return b_transposed(layout) ? b.at(j, p) : b.at(p, j);
  }
  std::string name() const {
    return std::string(to_string(layout)) + " " + std::to_string(m) + "x" + std::to_string(n) +
           "x" + std::to_string(k) + " ld+" + std::to_string(c.ld - n) + " offset " +
           std::to_string(c.offset);
  }

  Layout layout;
  std::int64_t m, n, k;
  Matrix a, b, c;
  float alpha = 1, beta = 0;
};

/// One element of C by BLAS's rules in f64, and the error bound of the GPU.
struct Expected {
  double value = 0, bound = 0;
};
Expected expected(const Job& job, std::int64_t i, std::int64_t j) {
  double sum = 0, size = 0;
  if (job.alpha != 0)
    for (std::int64_t p = 0; p < job.k; ++p) {
      const double product = double(job.op_a(i, p)) * double(job.op_b(p, j));
      sum += product;
      size += std::abs(product);
    }
  const double old = job.beta == 0 ? 0 : double(job.beta) * double(job.c.at(i, j));
  const double alpha_sum = job.alpha == 0 ? 0 : double(job.alpha) * sum;
  const double unit = std::ldexp(1.0, -24);
  return {alpha_sum + old,
          double(job.k + 4) * unit * (std::abs(double(job.alpha)) * size + std::abs(old)) +
              unit * std::abs(alpha_sum + old)};
}

void expect_right(const Job& job, const Matrix& got) {
  for (std::int64_t i = 0; i < job.m; ++i)
    for (std::int64_t j = 0; j < got.ld; ++j) {
      if (j >= job.n) {
        ASSERT_TRUE(std::isnan(got.at(i, j)))
            << job.name() << ": padding of row " << i << " was written";
        continue;
      }
      const Expected want = expected(job, i, j);
      if (std::isnan(want.value)) {
        ASSERT_TRUE(std::isnan(got.at(i, j))) << job.name() << " at " << i << "," << j;
      } else if (std::isinf(want.value)) {
        ASSERT_EQ(double(got.at(i, j)), want.value) << job.name() << " at " << i << "," << j;
      } else {
        ASSERT_LE(std::abs(double(got.at(i, j)) - want.value), want.bound)
            << job.name() << " at " << i << "," << j << ": " << got.at(i, j) << " instead of "
            << want.value;
      }
    }
}

class MatmulGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device = cuda::open_device("auto");
      cuda::load_compiler();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    folder = std::filesystem::path(testing::TempDir()) /
             (std::string("matmul_gpu_") +
              testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    multiply.emplace(options());
  }
  void TearDown() override {
    multiply.reset();
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  MatmulOptions options() const {
    MatmulOptions made;
    made.device = "auto";
    made.database = (folder / "none.db").string();
    made.warn = [](const std::string&) {};
    return made;
  }

  DeviceBuffer uploaded(const Matrix& matrix, Stream stream = nullptr) {
    DeviceBuffer buffer(*device, matrix.bytes());
    device->copy_to_device(buffer.data(), matrix.values.data(), matrix.bytes(), stream);
    device->synchronize(stream);
    return buffer;
  }
  static float* start(const DeviceBuffer& buffer, const Matrix& matrix) {
    return static_cast<float*>(buffer.data()) + matrix.offset;
  }
  void enqueue(const Job& job, const DeviceBuffer& a, const DeviceBuffer& b, const DeviceBuffer& c,
               Stream stream = nullptr) {
    (*multiply)(job.layout, job.m, job.n, job.k, job.alpha, start(a, job.a), job.a.ld,
                start(b, job.b), job.b.ld, job.beta, start(c, job.c), job.c.ld, stream);
  }
  Matrix downloaded(const Job& job, const DeviceBuffer& c, Stream stream = nullptr) {
    Matrix got = job.c;
    device->copy_to_host(got.values.data(), c.data(), got.bytes(), stream);
    device->synchronize(stream);
    return got;
  }
  void run(const Job& job, Stream stream = nullptr) {
    const DeviceBuffer a = uploaded(job.a, stream), b = uploaded(job.b, stream),
                       c = uploaded(job.c, stream);
    enqueue(job, a, b, c, stream);
    expect_right(job, downloaded(job, c, stream));
  }

  std::unique_ptr<Device> device;
  std::optional<Matmul> multiply;
  std::filesystem::path folder;
};

TEST_F(MatmulGpu, RandomProblems) {
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  const auto size = [&] {
    return random() % 3 == 0 ? one_of({1, 2, 16, 64, 128, 256})
                             : static_cast<std::int64_t>(1 + random() % 200);
  };
  for (int i = 0; i < 120; ++i) {
    Job job(kLayouts[i % 4], size(), size(), size(), one_of({0, 0, 1, 3, 4, 7}),
            one_of({0, 0, 1, 2, 3}));
    job.fill(static_cast<unsigned>(i));
    job.alpha = i % 3 == 0 ? 1.0F : -0.75F;
    job.beta = i % 2 == 0 ? 0.0F : 1.5F;
    run(job);
    if (HasFatalFailure()) return;
  }
}

TEST_F(MatmulGpu, BetaZeroNeverReadsC) {
  for (const Layout layout : kLayouts) {
    Job job(layout, 33, 65, 17, 1, 1);
    job.fill(1);
    for (std::int64_t i = 0; i < job.m; ++i)
      for (std::int64_t j = 0; j < job.n; ++j) job.c.at(i, j) = kNan;
    run(job);
  }
}

TEST_F(MatmulGpu, NanAndInfinityGoWhereACpuPutsThem) {
  for (const Layout layout : kLayouts) {
    Job job(layout, 70, 66, 40, 2, 0);
    job.fill(2);
    (a_transposed(layout) ? job.a.at(5, 9) : job.a.at(9, 5)) = kNan;    // row 9 of op(A)
    (b_transposed(layout) ? job.b.at(11, 3) : job.b.at(3, 11)) = kInf;  // column 11 of op(B)
    (a_transposed(layout) ? job.a.at(0, 60) : job.a.at(60, 0)) = -kInf;
    run(job);
  }
}

TEST_F(MatmulGpu, AlphaZeroOrKZeroScalesCAndTouchesNothingElse) {
  Job job(Layout::nn, 37, 41, 29, 3, 1);
  job.fill(3);
  job.alpha = 0;
  for (const float beta : {0.0F, 1.0F, -2.5F}) {
    job.beta = beta;
    const DeviceBuffer c = uploaded(job.c);
    (*multiply)(job.layout, job.m, job.n, job.k, 0, nullptr, job.a.ld, nullptr, job.b.ld, beta,
                start(c, job.c), job.c.ld);
    expect_right(job, downloaded(job, c));
    Job empty(Layout::nn, 37, 41, 0, 3, 1);
    empty.c = job.c;
    empty.beta = beta;
    const DeviceBuffer again = uploaded(empty.c);
    (*multiply)(empty.layout, empty.m, empty.n, 0, 1, nullptr, 1, nullptr, empty.n, beta,
                start(again, empty.c), empty.c.ld);
    expect_right(empty, downloaded(empty, again));
  }
}

TEST_F(MatmulGpu, AnEmptyResultIsNoWork) {
  (*multiply)(Layout::nn, 0, 8, 8, 1, nullptr, 8, nullptr, 8, 0, nullptr, 8);
  (*multiply)(Layout::tt, 8, 0, 8, 1, nullptr, 8, nullptr, 8, 0, nullptr, 0);
  device->synchronize(nullptr);
}

/// Three rows are 2^30 + 1 elements apart: offsets exceed 2^31 elements in A, then in B, then in C.
TEST_F(MatmulGpu, RowsPast32BitOffsets) {
  const std::int64_t ld = (std::int64_t{1} << 30) + 1;
  const std::int64_t bytes = (2 * ld + 8) * 4;
  if (device->status().free_bytes < bytes + (std::int64_t{64} << 20))
    GTEST_SKIP() << "needs " << (bytes >> 20) << " MiB of free device memory";
  const DeviceBuffer far(*device, bytes);
  for (const char which : {'a', 'b', 'c'}) {
    Job job(Layout::nn, 3, 3, 3);
    job.fill(4);
    job.beta = 0.5F;
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    const Matrix& strided = which == 'a' ? job.a : which == 'b' ? job.b : job.c;
    auto* const base = static_cast<float*>(far.data());
    for (std::int64_t row = 0; row < 3; ++row)
      device->copy_to_device(base + row * ld, &strided.values[static_cast<std::size_t>(row * 3)],
                             3 * 4, nullptr);
    (*multiply)(Layout::nn, 3, 3, 3, 1, which == 'a' ? base : start(a, job.a),
                which == 'a' ? ld : 3, which == 'b' ? base : start(b, job.b), which == 'b' ? ld : 3,
                job.beta, which == 'c' ? base : start(c, job.c), which == 'c' ? ld : 3);
    Matrix got = downloaded(job, c);
    if (which == 'c')
      for (std::int64_t row = 0; row < 3; ++row)
        device->copy_to_host(&got.at(row, 0), base + row * ld, 3 * 4, nullptr);
    device->synchronize(nullptr);
    expect_right(job, got);
  }
}

TEST_F(MatmulGpu, ThreadsWithTheirOwnStreams) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([this, t] {
      const Stream stream = device->create_stream();
      for (int i = 0; i < 10; ++i) {
        Job job(kLayouts[(t + i) % 4], 20 + i, 30 + t, 40 + i % 3, i % 2);
        job.fill(static_cast<unsigned>(t * 100 + i));
        run(job, stream);
      }
      device->destroy_stream(stream);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MatmulGpu, CapturesIntoAGraphOncePrepared) {
  const Stream stream = device->create_stream();
  Job job(Layout::nn, 96, 80, 64);
  job.fill(5);
  job.beta = 2;
  const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
  try {
    device->capture(stream, [&] { enqueue(job, a, b, c, stream); });
    ADD_FAILURE() << "a first call was captured";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("prepare()"));
  }
  Problem problem;
  problem.m = job.m, problem.n = job.n, problem.k = job.k;
  multiply->prepare(problem);
  const auto graph = device->capture(stream, [&] { enqueue(job, a, b, c, stream); });
  for (int i = 0; i < 2; ++i) {
    const Matrix before = downloaded(job, c, stream);
    graph->launch(stream);
    job.c = before;
    expect_right(job, downloaded(job, c, stream));
    // With many other problems, the choice of this one is replaced before the graph's next launch.
    for (problem.m = 1001; problem.m <= 6000; ++problem.m) multiply->prepare(problem);
  }
  device->destroy_stream(stream);
}

TEST_F(MatmulGpu, ScalarsOnTheDevice) {
  Job job(Layout::nt, 50, 60, 70);
  job.fill(6);
  job.alpha = -1.25F;
  job.beta = 0.5F;
  const float scalars[] = {job.alpha, job.beta};
  const DeviceBuffer on_device(*device, sizeof scalars);
  device->copy_to_device(on_device.data(), scalars, sizeof scalars, nullptr);
  const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
  Problem problem;
  set_layout(problem, job.layout);
  problem.m = job.m, problem.n = job.n, problem.k = job.k;
  Call call;
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = job.a.ld, call.ldb = job.b.ld, call.ldc = job.c.ld;
  call.alpha = 0, call.beta = 0;  // ignored
  call.alpha_device = on_device.data();
  call.beta_device = static_cast<const float*>(on_device.data()) + 1;
  (*multiply)(problem, call);
  expect_right(job, downloaded(job, c));
}

TEST_F(MatmulGpu, HostPointers) {
  for (const std::int64_t extra : {0, 3}) {
    Job job(Layout::tn, 65, 33, 129, extra);
    job.fill(7);
    for (const float beta : {0.0F, 1.0F}) {
      job.beta = beta;
      Matrix got = job.c;
      multiply->host(job.layout, job.m, job.n, job.k, 1, job.a.values.data(), job.a.ld,
                     job.b.values.data(), job.b.ld, beta, got.values.data(), got.ld);
      expect_right(job, got);
    }
  }
}

TEST_F(MatmulGpu, HostPointersThatNoTileFitsSayHowMuchIsMissing) {
  MatmulOptions small = options();
  small.host_memory_limit = 4096;
  multiply.emplace(small);
  const std::int64_t n = 1024;
  std::vector<float> a(static_cast<std::size_t>(n * n)), c(a.size());
  try {
    multiply->host(Layout::nn, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    FAIL() << "tiles of 4096 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_THAT(error.what(), testing::HasSubstr("4096"));
  }
}

TEST_F(MatmulGpu, ASecondProcessNeedsNoCompilerForADefault) {
  Job job(Layout::nn, 24, 24, 24);
  job.fill(8);
  run(job);
  MatmulOptions without = options();
  without.compile_missing = false;
  multiply.emplace(without);
  run(job);
}

TEST_F(MatmulGpu, TheFreeFunction) {
  ::setenv("TILEWISE_DB", (folder / "none.db").c_str(), 1);
  Job job(Layout::nn, 31, 32, 33);
  job.fill(9);
  const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
  matmul(job.layout, job.m, job.n, job.k, 1, start(a, job.a), job.a.ld, start(b, job.b), job.b.ld,
         0, start(c, job.c), job.c.ld);
  expect_right(job, downloaded(job, c));
}

}  // namespace
}  // namespace tilewise::matmul_gpu_test
