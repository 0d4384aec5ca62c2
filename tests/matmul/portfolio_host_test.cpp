// Kernels that portfolios serve on capabilities without measurements, on the CPU executor.
#include "matmul/executable.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"
#include "tests/matmul/on_device.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::portfolio_host_test {
namespace {

struct PortfolioOnTheCpu : test::OnDevice {
  explicit PortfolioOnTheCpu(const std::string& target)
      : OnDevice("host:" + target), gpu_(nominal_device(best_target(parse_target(target)))) {}

  void check(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType type) {
    Problem problem = typed_problem(layout, m, n, k, type, type);
    set_alignment(problem, natural_alignment(problem));
    const Resolver portfolio({}, gpu_, "", portfolio_for(gpu_)), none({}, gpu_);
    const Resolution served = resolve_with_portfolio(
        none, [&] { return &portfolio; }, problem);
    SCOPED_TRACE(to_string(served.candidate) + " for " + to_string(problem));
    predicted_ += served.kind == MatchKind::predicted;
    ASSERT_EQ(rejection(find_template(served.candidate.kernel_template), problem,
                        served.candidate.configuration, device_->info()),
              "");
    // Small whole numbers: every order of sums is exact.
    const auto number = [](std::int64_t i) { return double(i * 7 % 5 - 2); };
    const int element = bytes_of(type);
    std::vector<std::byte> a(static_cast<std::size_t>(m * k * element)),
        b(static_cast<std::size_t>(k * n * element)), c(static_cast<std::size_t>(m * n * element));
    for (std::int64_t i = 0; i < m * k; ++i) from_double(type, number(i), a.data() + i * element);
    for (std::int64_t i = 0; i < k * n; ++i)
      from_double(type, number(i + 3), b.data() + i * element);
    std::string log;
    const Plan plan = plan_of(served.candidate, problem, device_->info());
    const std::vector<Image> images = images_of(plan, log);
    ASSERT_FALSE(images.empty()) << log;
    const DeviceBuffer on_a = uploaded(a.data(), m * k * element),
                       on_b = uploaded(b.data(), k * n * element);
    const DeviceBuffer on_c(*device_, m * n * element);
    Call call;
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = n;
    Executable(*device_, problem, plan, images).launch(call);
    device_->copy_to_host(c.data(), on_c.data(), on_c.bytes(), nullptr);
    device_->synchronize(nullptr);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += number(problem.a.transposed ? l * m + i : i * k + l) *
                 number((problem.b.transposed ? j * k + l : l * n + j) + 3);
        ASSERT_EQ(to_double(type, c.data() + (i * n + j) * element), sum) << i << ", " << j;
      }
  }
  void check_all() {
    for (const DType type : {DType::f32, DType::f16}) {
      check(Layout::nt, 130, 72, 40, type);
      check(Layout::nn, 96, 128, 64, type);
      check(Layout::tn, 33, 65, 50, type);
      check(Layout::nt, 2, 100, 64, type);
    }
    EXPECT_GE(predicted_, 6);
  }

  DeviceInfo gpu_;
  int predicted_ = 0;
};
struct PortfolioOfTuring : PortfolioOnTheCpu {
  PortfolioOfTuring() : PortfolioOnTheCpu("sm_75") {}
};
struct PortfolioOfAmpere : PortfolioOnTheCpu {
  PortfolioOfAmpere() : PortfolioOnTheCpu("sm_86") {}
};
struct PortfolioOfBlackwell : PortfolioOnTheCpu {
  PortfolioOfBlackwell() : PortfolioOnTheCpu("sm_120") {}
};

TEST_F(PortfolioOfTuring, IsRight) { check_all(); }
TEST_F(PortfolioOfAmpere, IsRight) { check_all(); }
TEST_F(PortfolioOfBlackwell, IsRight) { check_all(); }

}  // namespace
}  // namespace tilewise::portfolio_host_test
