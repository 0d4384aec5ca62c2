// Emulated products on the CPU executor: equal bits of rows, parts of k, chunks of C's columns.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "tests/matmul/on_device.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::residues_host_test {
namespace {

using Numbers = std::vector<double>;

class Residues : public test::OnDevice {
 protected:
  Residues() : OnDevice("host:sm_90a") {}
  void SetUp() override {
    setenv("TILEWISE_HOST_FLAGS", "-O1", 1);  // products of bytes are many
    OnDevice::SetUp();
  }

  struct Result {
    Numbers c;
    std::int32_t moduli = 0;  ///< more than 16: the native product
  };
  /// info: the facts that the plan is made for.
  Result multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const Numbers& b,
                  const DeviceInfo& info) {
    Problem problem = test::make_problem(Layout::nn, m, n, k, 8);
    set_types(problem, DType::f64, DType::f64, MathMode::emulated);
    const KernelTemplate& kernel = find_template("residues");
    Configuration c = kernel.default_configuration(problem, info);
    for (const auto& [name, value] : {std::pair{"TILE_M", 64},
                                      {"TILE_N", 8},
                                      {"CONSUMERS", 1},
                                      {"SWAP_AB", 0},
                                      {"STAGES", 2},
                                      {"EPILOGUE", 0}})
      c.set(name, value);
    EXPECT_EQ(rejection(kernel, problem, c, info), "");
    const Plan plan = kernel.plan(problem, c, info);
    steps_ = plan.steps.size();
    std::string log;
    const std::vector<Image> images = images_of(plan, log);
    EXPECT_FALSE(images.empty()) << log;
    if (images.empty()) return {};
    const Executable executable(*device_, problem, plan, images);
    const DeviceBuffer on_a = uploaded(a, m * k * 8), on_b = uploaded(b.data(), k * n * 8),
                       on_c(*device_, m * n * 8), workspace(*device_, plan.workspace_bytes);
    Call call;
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = k, call.ldb = n, call.ldc = n;
    call.alpha = 1, call.beta = 0;
    executable.launch(call, workspace.data());
    Result result{Numbers(static_cast<std::size_t>(m * n))};
    device_->copy_to_host(result.c.data(), on_c.data(), m * n * 8, nullptr);
    const std::vector<Argument>& arguments = plan.steps.back().arguments;
    const auto needed = std::find_if(arguments.begin(), arguments.end(), [](const Argument& x) {
      return x.kind == Argument::Kind::workspace;
    });
    device_->copy_to_host(&result.moduli,
                          static_cast<const std::byte*>(workspace.data()) + needed->value,
                          sizeof result.moduli, nullptr);
    device_->synchronize(nullptr);
    return result;
  }
  Result multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                  const Numbers& b) {
    return multiply(m, n, k, a, b, device_->info());
  }

  Numbers numbers(std::int64_t count) {
    std::normal_distribution<> normal;
    Numbers made(static_cast<std::size_t>(count));
    for (double& number : made) number = normal(random_);
    return made;
  }

  std::mt19937_64 random_{7};
  std::size_t steps_ = 0;  ///< of the last product
};

TEST_F(Residues, RowsHaveEqualBitsBesideOthersThatNeedAsManyModuli) {
  constexpr std::int64_t m = 90, n = 20, k = 300, first = 30, rows = 7;
  const Numbers a = numbers(m * k), b = numbers(k * n);
  const Result all = multiply(m, n, k, a.data(), b), again = multiply(m, n, k, a.data(), b),
               some = multiply(rows, n, k, a.data() + first * k, b);
  ASSERT_LE(all.moduli, 16);
  ASSERT_EQ(all.moduli, some.moduli);
  EXPECT_EQ(all.c, again.c);
  EXPECT_EQ(Numbers(all.c.begin() + first * n, all.c.begin() + (first + rows) * n), some.c);
}

TEST_F(Residues, PartsOfADeepProductAreAdded) {
  constexpr std::int64_t m = 3, n = 5, k = 131'000;
  const Numbers a = numbers(m * k), b = numbers(k * n);
  const Result result = multiply(m, n, k, a.data(), b);
  ASSERT_LE(result.moduli, 16);
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
      const double got = result.c[static_cast<std::size_t>(i * n + j)];
      EXPECT_LE(std::fabs(got - sum),
                std::sqrt(double(k)) * 0x1p-53 * magnitudes + 0x1p-53 * std::fabs(sum))
          << i << ", " << j;
    }
}

TEST_F(Residues, ChunksOfColumnsHaveTheBitsOfTheWhole) {
  constexpr std::int64_t m = 70, n = 300, k = 40;
  const Numbers a = numbers(m * k), b = numbers(k * n);
  const Result whole = multiply(m, n, k, a.data(), b);
  const std::size_t steps = steps_;
  DeviceInfo small = device_->info();
  small.memory_bytes = 4 << 20;
  const Result chunks = multiply(m, n, k, a.data(), b, small);
  EXPECT_GT(steps_, steps);
  ASSERT_LE(whole.moduli, 16);
  EXPECT_EQ(whole.moduli, chunks.moduli);
  EXPECT_EQ(whole.c, chunks.c);
}

}  // namespace
}  // namespace tilewise::residues_host_test
