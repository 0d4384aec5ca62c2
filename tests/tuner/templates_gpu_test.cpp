// Every template on a real GPU: a pairwise spread of configurations, all layouts, odd sizes,
// leading dimensions larger than the row, pointers off by one element, guard zones, NaN and
// infinity. TILEWISE_TEST_CONFIGURATIONS sets the number of configurations per template (default
// 60); use fewer under a sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "device/cuda/cuda.hpp"
#include "matmul/executable.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::templates_gpu_test {
namespace {

constexpr float kCanary = 12345.0f;
constexpr std::int64_t kGuard = 1024;  // elements before and after C

/// A matrix as stored, inside a larger buffer.
struct Stored {
  std::int64_t rows, columns, ld, offset;
  std::vector<float> data;

  Stored(std::int64_t r, std::int64_t c, int alignment, std::int64_t guard)
      : rows(r), columns(c), ld(0), offset(guard + (alignment >= 16 ? 0 : alignment / 4)) {
    ld = alignment >= 16 ? (columns + 3) / 4 * 4 + 4 : columns + (columns % 2 ? 2 : 1);
    if (alignment == 8) ld = (columns + 1) / 2 * 2 + 2;
    data.assign(std::size_t(offset + rows * ld + guard + 4), kCanary);
  }
  float& at(std::int64_t r, std::int64_t c) { return data[std::size_t(offset + r * ld + c)]; }
};

class TemplatesGpu : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      device_ = cuda::open_device("auto");
      compiler_ = cuda::load_compiler();
    } catch (const Error& error) {
      why_ = error.what();
    }
  }
  static void TearDownTestSuite() {
    device_.reset();
    compiler_.reset();
  }
  void SetUp() override {
    if (!device_ || !compiler_) GTEST_SKIP() << why_;
  }

  static Image compile(const KernelSpec& kernel) {
    const KernelSource& source = kernel_source(kernel.source);
    CompileResult made =
        compiler_->compile({kernel, source.text, source.headers, device_->info().target});
    if (!made.image) throw std::runtime_error(to_string(kernel) + "\n" + made.log);
    return std::move(*made.image);
  }

  /// The images of a plan's steps, compiled if necessary. A smaller problem may have other steps
  /// than the case's own: SPLIT_K 0 depends on the problem.
  static std::vector<Image> images_of(const Plan& plan) {
    std::vector<Image> images;
    for (const LaunchStep& step : plan.steps) {
      const std::string name = to_string(step.kernel);
      auto known = compiled_.find(name);
      if (known == compiled_.end()) known = compiled_.emplace(name, compile(step.kernel)).first;
      images.push_back(known->second);
    }
    return images;
  }

  static Executable executable_of(const KernelTemplate& kernel, const Problem& problem,
                                  const Candidate& candidate) {
    Plan plan = kernel.plan(problem, candidate.configuration, device_->info());
    std::vector<Image> images = images_of(plan);
    return {*device_, problem, std::move(plan), std::move(images)};
  }

  struct Operands {
    Stored a, b, c;
  };

  static Operands make_operands(const Problem& p, std::uint64_t seed) {
    Operands o{Stored(rows_a(p), min_lda(p), p.a.alignment, 0),
               Stored(rows_b(p), min_ldb(p), p.b.alignment, 0),
               Stored(p.m, p.n, p.c.alignment, kGuard)};
    std::mt19937_64 generator(seed);
    const auto fill = [&](Stored& s) {
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < s.columns; ++c) s.at(r, c) = float(int(generator() % 7) - 3);
    };
    fill(o.a), fill(o.b), fill(o.c);
    return o;
  }

  /// Runs the executable. `o.c.data` then has the whole C buffer, including guards.
  static void run(const Executable& executable, Operands& o, double alpha, double beta) {
    const auto upload = [&](const Stored& s) {
      DeviceBuffer buffer(*device_, std::int64_t(s.data.size() * 4));
      device_->copy_to_device(buffer.data(), s.data.data(), buffer.bytes(), nullptr);
      return buffer;
    };
    const DeviceBuffer a = upload(o.a), b = upload(o.b), c = upload(o.c);
    Call call;
    call.a = static_cast<float*>(a.data()) + o.a.offset;
    call.b = static_cast<float*>(b.data()) + o.b.offset;
    call.c = static_cast<float*>(c.data()) + o.c.offset;
    call.lda = o.a.ld, call.ldb = o.b.ld, call.ldc = o.c.ld;
    call.alpha = alpha, call.beta = beta;
    executable.launch(call);
    device_->copy_to_host(o.c.data.data(), c.data(), c.bytes(), nullptr);
    device_->synchronize(nullptr);
  }

  /// Compares exactly with the CPU reference, including padding and guards. Empty if right.
  static std::string check(const Problem& p, const Executable& executable, double alpha,
                           double beta, std::uint64_t seed) {
    Operands o = make_operands(p, seed);
    if (beta == 0)  // never read: canary
      for (std::int64_t r = 0; r < p.m; ++r)
        for (std::int64_t c = 0; c < p.n; ++c) o.c.at(r, c) = std::nanf("");
    Operands expected = o;
    reference_multiply(layout_of(p), p.m, p.n, p.k, alpha, &expected.a.at(0, 0), o.a.ld,
                       &expected.b.at(0, 0), o.b.ld, beta, &expected.c.at(0, 0), o.c.ld, 1);
    run(executable, o, alpha, beta);
    for (std::size_t i = 0; i < o.c.data.size(); ++i)
      if (!(o.c.data[i] == expected.c.data[i])) {
        const std::int64_t at = std::int64_t(i) - o.c.offset;
        return "element " + std::to_string(at) + " (row " + std::to_string(at / o.c.ld) +
               ", column " + std::to_string(at % o.c.ld) + ") is " + std::to_string(o.c.data[i]) +
               " instead of " + std::to_string(expected.c.data[i]);
      }
    return "";
  }

  struct Case {
    Candidate candidate;
    Problem problem;  // only its layout and alignment are used
    std::string error;
  };

  /// A pairwise spread of a template's configurations, in every layout. They are compiled on all
  /// cores for the problems for which they were drawn.
  static std::vector<Case> spread(const KernelTemplate& kernel, int alignment) {
    const char* wanted = std::getenv("TILEWISE_TEST_CONFIGURATIONS");
    const std::size_t limit = wanted ? std::strtoul(wanted, nullptr, 10) : 60;
    std::vector<Case> cases;

    for (const Layout layout : test::kLayouts) {
      const auto problems = test::typical_problems(kernel, device_->info(), layout, alignment);
      for (const Problem& typical : problems) {
        const SearchSpace space(typical, device_->info(), {&kernel});
        const std::size_t share = std::max<std::size_t>(1, limit / 4 / problems.size());
        for (const Candidate& c : test::pairwise_cover(space, 5 + std::uint64_t(layout), share))
          cases.push_back({c, typical, ""});
      }
    }
    std::atomic<std::size_t> next = 0;
    std::mutex adding;
    std::vector<std::jthread> pool;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      pool.emplace_back([&] {
        for (std::size_t i = next++; i < cases.size(); i = next++) try {
            const Plan plan =
                kernel.plan(cases[i].problem, cases[i].candidate.configuration, device_->info());
            for (const LaunchStep& step : plan.steps) {
              Image image = compile(step.kernel);
              const std::lock_guard lock(adding);
              compiled_.emplace(to_string(step.kernel), std::move(image));
            }
          } catch (const std::exception& error) {
            cases[i].error = error.what();
          }
      });
    pool.clear();
    return cases;
  }

  static void check_families(int alignment) {
    for (const KernelTemplate& kernel : catalog())
      if (kernel.supports(test::make_problem(Layout::nn, 64, 64, 64, alignment), device_->info()))
        check_spread(kernel, alignment);
  }
  static void check_spread(const KernelTemplate& kernel, int alignment) {
    const std::vector<Size> all = {{1, 1, 1},      {17, 33, 9},     {65, 127, 40},
                                   {128, 64, 100}, {200, 300, 129}, {37, 5, 1000}};
    int ran = 0;
    for (const Case& c : spread(kernel, alignment)) {
      ASSERT_EQ(c.error, "");
      const Size own{c.problem.m, c.problem.n, c.problem.k};
      for (const Size& size : kernel.size_specialised ? std::vector{own} : all) {
        Problem p = c.problem;
        p.m = size.m, p.n = size.n, p.k = size.k;
        if (!rejection(kernel, p, c.candidate.configuration, device_->info()).empty()) continue;
        const Executable executable = executable_of(kernel, p, c.candidate);
        ASSERT_EQ(check(p, executable, 1, 0, 1 + std::uint64_t(ran)), "")
            << to_string(c.candidate) << " for " << to_string(p);
        ASSERT_EQ(check(p, executable, -2, 3, 2 + std::uint64_t(ran)), "")
            << to_string(c.candidate) << " for " << to_string(p);
        ++ran;
      }
    }
    EXPECT_GT(ran, 0) << kernel.name;
    std::printf("%s, alignment %d: %d cases\n", kernel.name.c_str(), alignment, ran);
  }

  static void same_from_run_to_run(const KernelTemplate& kernel);

  inline static std::unique_ptr<Device> device_;
  inline static std::unique_ptr<Compiler> compiler_;
  inline static std::map<std::string, Image> compiled_;  // by the kernel's text
  inline static std::string why_;
};

// All families of the catalog that multiply f32.
TEST_F(TemplatesGpu, FamiliesAreExactOnAlignedOperands) { check_families(16); }
TEST_F(TemplatesGpu, FamiliesAreExactOnHalfAlignedOperands) { check_families(8); }
TEST_F(TemplatesGpu, FamiliesAreExactOnUnalignedOperands) { check_families(4); }

// A NaN or an infinity affects only its own row (column) of C. Zero times infinity is NaN, and a
// tile's padding must not spread it.
TEST_F(TemplatesGpu, NanAndInfinityStayWhereTheyBelong) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const KernelTemplate& kernel : catalog()) {
    for (const Case& c : spread(kernel, 4)) {
      ASSERT_EQ(c.error, "");
      Problem p = c.problem;
      p.m = 45, p.n = 71, p.k = 53;
      if (!rejection(kernel, p, c.candidate.configuration, device_->info()).empty()) continue;
      const Executable executable = executable_of(kernel, p, c.candidate);
      Operands o = make_operands(p, 3);
      const auto a = [&](std::int64_t i, std::int64_t l) -> float& {
        return p.a.transposed ? o.a.at(l, i) : o.a.at(i, l);
      };
      const auto b = [&](std::int64_t l, std::int64_t j) -> float& {
        return p.b.transposed ? o.b.at(j, l) : o.b.at(l, j);
      };
      a(7, 52) = std::nanf("");  // row 7, in the last element of k
      a(44, 0) = inf;            // the last row
      b(52, 70) = -inf;          // the last column
      Operands expected = o;
      reference_multiply(layout_of(p), p.m, p.n, p.k, 1, &expected.a.at(0, 0), o.a.ld,
                         &expected.b.at(0, 0), o.b.ld, 1, &expected.c.at(0, 0), o.c.ld, 1);
      run(executable, o, 1, 1);
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          const float got = o.c.at(i, j), want = expected.c.at(i, j);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
              << to_string(c.candidate) << " at " << i << ',' << j << ": " << got << " for "
              << want;
        }
      // alpha = 0: A and B must not be read; k = 0: there is nothing to read.
      o = make_operands(p, 4);
      a(7, 5) = std::nanf("");
      Operands scaled = o;
      run(executable, o, 0, 2);
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) ASSERT_EQ(o.c.at(i, j), 2 * scaled.c.at(i, j));
    }
  }
}

TEST_F(TemplatesGpu, ResultsAreTheSameFromRunToRun) {
  for (const char* name : {"simt", "skinny"}) same_from_run_to_run(find_template(name));
}

void TemplatesGpu::same_from_run_to_run(const KernelTemplate& kernel) {
  for (const Case& c : spread(kernel, 16)) {
    Problem p = c.problem;
    p.m = 300, p.n = 200, p.k = 777;
    if (!rejection(kernel, p, c.candidate.configuration, device_->info()).empty()) continue;
    const Executable executable = executable_of(kernel, p, c.candidate);
    Operands first = make_operands(p, 9);
    std::mt19937_64 generator(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : first.a.data) x = uniform(generator);
    for (float& x : first.b.data) x = uniform(generator);
    Operands second = first;
    run(executable, first, 1, 0);
    run(executable, second, 1, 0);
    ASSERT_EQ(std::memcmp(first.c.data.data(), second.c.data.data(), first.c.data.size() * 4), 0)
        << to_string(c.candidate);
  }
}

}  // namespace
}  // namespace tilewise::templates_gpu_test
