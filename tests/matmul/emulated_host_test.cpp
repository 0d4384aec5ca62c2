// Emulated products on the CPU executor: equal bits of rows, parts of k, chunks of C's columns.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "tests/matmul/on_device.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::emulated_host_test {
namespace {

template <class T>
using Numbers = std::vector<T>;

class Emulated : public test::OnDevice {
 protected:
  Emulated() : OnDevice("host:sm_90a") {}
  void SetUp() override {
    setenv("TILEWISE_HOST_FLAGS", "-O1", 1);  // products of bytes are many
    OnDevice::SetUp();
  }

  template <class T>
  struct Result {
    Numbers<T> c;
    std::int32_t moduli = 0;  ///< more than 16: the native product
  };
  /// info: the facts that the plan is made for.
  template <class T>
  Result<T> multiply(std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                     const Numbers<T>& b, const DeviceInfo& info) {
    constexpr auto kBytes = static_cast<int>(sizeof(T));
    const DType type = kBytes == 8 ? DType::f64 : DType::f32;
    Problem problem = test::make_problem(Layout::nn, m, n, k, kBytes);
    set_types(problem, type, type, MathMode::emulated);
    const KernelTemplate& kernel = find_template(kBytes == 8 ? "residues" : "halves");
    Configuration c = kernel.default_configuration(problem, info);
    test::set_small_emulated(c);
    EXPECT_EQ(rejection(kernel, problem, c, info), "");
    const Plan plan = kernel.plan(problem, c, info);
    steps_ = plan.steps.size();
    std::string log;
    const std::vector<Image> images = images_of(plan, log);
    EXPECT_FALSE(images.empty()) << log;
    if (images.empty()) return {};
    EmulatedCounts counts;
    const Executable executable(*device_, problem, plan, images, &counts);
    const DeviceBuffer on_a = uploaded(a, m * k * kBytes),
                       on_b = uploaded(b.data(), k * n * kBytes), on_c(*device_, m * n * kBytes),
                       workspace(*device_, plan.workspace_bytes);
    Call call;
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = k, call.ldb = n, call.ldc = n;
    call.alpha = 1, call.beta = 0, call.accuracy = accuracy_;
    executable.launch(call, workspace.data());
    Result<T> result{Numbers<T>(static_cast<std::size_t>(m * n))};
    device_->copy_to_host(result.c.data(), on_c.data(), m * n * kBytes, nullptr);
    const std::vector<Argument>& arguments = plan.steps.back().arguments;
    const auto needed = std::find_if(arguments.begin(), arguments.end(), [](const Argument& x) {
      return x.kind == Argument::Kind::workspace;
    });
    device_->copy_to_host(&result.moduli,
                          static_cast<const std::byte*>(workspace.data()) + needed->value,
                          sizeof result.moduli, nullptr);
    device_->synchronize(nullptr);
    EXPECT_EQ(counts.emulated, result.moduli <= 16 ? 1 : 0);
    EXPECT_EQ(counts.native, result.moduli <= 16 ? 0 : 1);
    return result;
  }
  template <class T>
  Result<T> multiply(std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                     const Numbers<T>& b) {
    return multiply(m, n, k, a, b, device_->info());
  }

  template <class T>
  Numbers<T> numbers(std::int64_t count) {
    std::normal_distribution<> normal;
    Numbers<T> made(static_cast<std::size_t>(count));
    for (T& number : made) number = static_cast<T>(normal(random_));
    return made;
  }

  /// |C - A B| <= tau |A| |B| + 2^-53 |A B|.
  static void expect_within(double tau, std::int64_t m, std::int64_t n, std::int64_t k,
                            const Numbers<double>& a, const Numbers<double>& b,
                            const Numbers<double>& c) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        long double sum = 0, magnitudes = 0;
        for (std::int64_t h = 0; h < k; ++h) {
          const long double product =
              static_cast<long double>(a[static_cast<std::size_t>(i * k + h)]) *
              b[static_cast<std::size_t>(h * n + j)];
          sum += product;
          magnitudes += std::fabs(product);
        }
        EXPECT_LE(std::fabs(c[static_cast<std::size_t>(i * n + j)] - sum),
                  tau * magnitudes + 0x1p-53 * std::fabs(sum))
            << i << ", " << j;
      }
  }
  /// Rows have equal bits beside others that need as many moduli.
  template <class T>
  void expect_equal_bits_of_rows() {
    constexpr std::int64_t m = 90, n = 20, k = 300, first = 30, rows = 7;
    const Numbers<T> a = numbers<T>(m * k), b = numbers<T>(k * n);
    const Result<T> all = multiply(m, n, k, a.data(), b), again = multiply(m, n, k, a.data(), b),
                    some = multiply(rows, n, k, a.data() + first * k, b);
    ASSERT_LE(all.moduli, 16);
    ASSERT_EQ(all.moduli, some.moduli);
    EXPECT_EQ(all.c, again.c);
    EXPECT_EQ(Numbers<T>(all.c.begin() + first * n, all.c.begin() + (first + rows) * n), some.c);
  }
  template <class T>
  void expect_equal_bits_of_chunks() {
    constexpr std::int64_t m = 70, n = 300, k = 40;
    const Numbers<T> a = numbers<T>(m * k), b = numbers<T>(k * n);
    const Result<T> whole = multiply(m, n, k, a.data(), b);
    const std::size_t steps = steps_;
    DeviceInfo small = device_->info();
    small.memory_bytes = (sizeof(T) == 8 ? 4 : 1) << 20;
    const Result<T> chunks = multiply(m, n, k, a.data(), b, small);
    EXPECT_GT(steps_, steps);
    ASSERT_LE(whole.moduli, 16);
    EXPECT_EQ(whole.moduli, chunks.moduli);
    EXPECT_EQ(whole.c, chunks.c);
  }

  std::mt19937_64 random_{7};
  std::size_t steps_ = 0;  ///< of the last product
  double accuracy_ = 0;    ///< of calls
};

TEST_F(Emulated, PartsOfADeepProductAreAdded) {
  constexpr std::int64_t m = 3, n = 5, k = 131'000;
  const Numbers<double> a = numbers<double>(m * k), b = numbers<double>(k * n);
  const Result<double> result = multiply(m, n, k, a.data(), b);
  ASSERT_LE(result.moduli, 16);
  expect_within(std::sqrt(double(k)) * 0x1p-53, m, n, k, a, b, result.c);
}

TEST_F(Emulated, RowsHaveEqualBitsBesideOthers) {
  expect_equal_bits_of_rows<double>();
  expect_equal_bits_of_rows<float>();
}
// The moduli are as many as the call's accuracy needs.
TEST_F(Emulated, AnAccuracyTakesFewerModuli) {
  constexpr std::int64_t m = 20, n = 30, k = 100;
  const Numbers<double> a = numbers<double>(m * k), b = numbers<double>(k * n);
  std::int32_t moduli = 17;
  for (const double accuracy : {0.0, 1e-12, 1e-8, 1e-5}) {
    accuracy_ = accuracy;
    const Result<double> result = multiply(m, n, k, a.data(), b);
    EXPECT_LT(result.moduli, moduli) << accuracy;
    moduli = result.moduli;
    expect_within(std::max(accuracy, std::sqrt(double(k)) * 0x1p-53), m, n, k, a, b, result.c);
  }
  accuracy_ = 1e-20;  // below the mode's bound
  const Result<double> exact = multiply(m, n, k, a.data(), b);
  accuracy_ = 0;
  EXPECT_EQ(exact.c, multiply(m, n, k, a.data(), b).c);
}

TEST_F(Emulated, ChunksOfColumnsHaveTheBitsOfTheWhole) {
  expect_equal_bits_of_chunks<double>();
  expect_equal_bits_of_chunks<float>();
}

// Of deep products of halves the certificate reads a sample of the steps, from all of k.
TEST_F(Emulated, ASampleOfADeepProductIsEnough) {
  constexpr std::int64_t m = 5, n = 6, k = 5000;
  Numbers<float> a = numbers<float>(m * k);
  const Numbers<float> b = numbers<float>(k * n);
  for (std::int64_t i = 0; i < m; ++i) std::fill_n(a.begin() + i * k, 3000, 0.0F);
  EXPECT_LE(multiply(m, n, k, a.data(), b).moduli, 16);
  std::fill_n(a.begin() + 2 * k, k, 0.0F);
  a[static_cast<std::size_t>(2 * k + 31)] = 1;  // in no sample
  EXPECT_GT(multiply(m, n, k, a.data(), b).moduli, 16);
}

TEST_F(Emulated, NanAndInfinityAreNative) {
  constexpr std::int64_t m = 4, n = 3, k = 20;
  const Numbers<float> b = numbers<float>(k * n);
  for (const float special :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Numbers<float> a = numbers<float>(m * k);
    a[k] = special;
    const Result<float> result = multiply(m, n, k, a.data(), b);
    EXPECT_GT(result.moduli, 16);
    EXPECT_TRUE(std::isfinite(result.c[0]));
    EXPECT_FALSE(std::isfinite(result.c[n]));
  }
}

}  // namespace
}  // namespace tilewise::emulated_host_test
