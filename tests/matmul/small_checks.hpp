#pragma once
// Checks of the template "small" on every machine, GPU or CPU, in any configuration.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/matmul/on_device.hpp"
#include "tests/matmul/whole_numbers.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test {

class SmallProducts : public OnDevice {
 protected:
  using OnDevice::OnDevice;
  using OnDevice::uploaded;
  DeviceBuffer uploaded(const Elements& elements) {
    return uploaded(elements.memory.data(), elements.bytes());
  }

  void launch(const Problem& problem, const Configuration& configuration, const Call& call) {
    const Plan plan = small().plan(problem, configuration, device_->info());
    ASSERT_EQ(plan.steps.size(), 1u);
    const KernelSpec& spec = plan.steps[0].kernel;
    const KernelSource& source = kernel_source(spec.source);
    const CompileResult made =
        compiler_->compile({spec, source.text, source.headers, device_->info().target});
    ASSERT_TRUE(made.image) << to_string(spec) << '\n' << made.log;
    const Executable executable(*device_, problem, plan, std::span(&*made.image, 1));
    executable.launch(call);
    device_->synchronize(nullptr);
  }

  /// Each product of the batch has its own A and B: the sign of B alternates.
  void check(Problem problem, const Configuration* given, std::int64_t extra,
             std::mt19937_64& random) {
    WholeNumbers job(problem, extra, static_cast<unsigned>(random()));
    const std::int64_t stride_b = rows_b(problem) * job.ldb + extra;
    Elements b(problem.b.type, problem.batch * stride_b, 7);
    for (std::int64_t i = 0; i < problem.batch; ++i) {
      for (std::int64_t q = 0; q < problem.k; ++q)
        for (std::int64_t j = 0; j < problem.n; ++j) {
          const int number = job.numbers_b[std::size_t(q * problem.n + j)];
          const std::int64_t at = problem.b.transposed ? j * job.ldb + q : q * job.ldb + j;
          b.set(i * stride_b + at, i % 2 ? -number : number);
        }
      for (std::int64_t at = 0; i % 2 && at < problem.m * job.ldc; ++at)
        if (at % job.ldc < problem.n) {
          int& expected = job.expected[std::size_t(i * job.stride_c + at)];
          expected = 8 - expected;  // 4 - sum becomes 4 + sum
        }
    }
    set_alignment(problem, alignment_of(job, stride_b));
    const Configuration configuration = given ? *given : drawn(problem, random);
    const DeviceBuffer on_a = uploaded(job.a), on_b = uploaded(b), on_c = uploaded(job.c);
    Call call = job.call(on_a.data(), on_b.data(), on_c.data());
    call.stride_b = stride_b;
    launch(problem, configuration, call);
    device_->copy_to_host(job.c.at(0), on_c.data(), job.c.bytes(), nullptr);
    device_->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ' ' << configuration.text();
  }

  /// Checks kinds, layouts, sizes, batches and configurations, `rounds` per kind.
  void check_every_kind(int rounds) {
    static constexpr Size sizes[] = {{8, 8, 8},  {7, 9, 11}, {64, 48, 32}, {5, 64, 3}, {16, 16, 16},
                                     {33, 1, 8}, {4, 4, 4},  {24, 24, 24}, {1, 63, 61}};
    static constexpr std::int64_t batches[] = {3, 70, 1, 2};
    std::mt19937_64 random(5);
    int turn = 0;
    for (int round = 0; round < rounds; ++round)
      for (const ProductKind& kind : test::one_type_kinds()) {
        if (kind.math != MathMode::strict) continue;
        const Size& size = sizes[turn % 9];
        Problem problem = make_problem(kLayouts[(turn + turn / 4) % 4], size.m, size.n, size.k, 1);
        set_types(problem, kind);
        problem.batch = batches[(turn + turn / 9) % 4];
        check(problem, nullptr, turn % 5 == 0 ? 3 : 0, random);
        ++turn;
      }
    EXPECT_GT(turn, 8 * rounds);
  }

  /// Checks that a NaN affects only its row of its product, even if rows are split.
  void check_nan_stays(const Configuration& changed) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Problem problem = make_problem(Layout::nn, 12, 20, 9, 4);
    problem.batch = 5;
    std::vector<float> a(5 * 12 * 9, 1), b(5 * 9 * 20, 1), c(5 * 12 * 20, nan);
    a[(3 * 12 + 7) * 9 + 8] = nan;
    run(problem, changed, a, b, c, 2);
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (i / 20 == 3 * 12 + 7)
        EXPECT_TRUE(std::isnan(c[i])) << i;
      else
        EXPECT_EQ(c[i], 18) << i;  // beta is 0: C is not read
    }
  }

  /// Checks that with alpha = 0, A and B (null here) are not read and C is scaled.
  void check_nothing_to_multiply() {
    Problem problem = make_problem(Layout::tt, 12, 20, 9, 4);
    problem.batch = 5;
    for (const std::int64_t k : {9, 0}) {
      problem.k = k;
      std::vector<float> none, c(5 * 12 * 20, 3);
      run(problem, {}, none, none, c, k == 0 ? 1 : 0, 2);
      EXPECT_EQ(c, std::vector<float>(c.size(), 6)) << "k = " << k;
    }
  }

  static const KernelTemplate& small() { return find_template("small"); }

 private:
  static Alignment alignment_of(const WholeNumbers& job, std::int64_t stride_b) {
    const auto of = [](DType type, std::int64_t ld, std::int64_t stride) {
      const auto bytes = static_cast<std::uint64_t>(bytes_of(type));
      return common_alignment(
          {static_cast<std::uint64_t>(ld) * bytes, static_cast<std::uint64_t>(stride) * bytes});
    };
    const Problem& p = job.problem;
    return {of(p.a.type, job.lda, job.stride_a), of(p.b.type, job.ldb, stride_b),
            of(p.c.type, job.ldc, job.stride_c)};
  }

  Configuration drawn(const Problem& problem, std::mt19937_64& random) {
    const SearchSpace space(problem, device_->info(), {&small()});
    const auto candidate = space.random(random);
    return candidate ? candidate->configuration
                     : small().default_configuration(problem, device_->info());
  }

  /// Computes C = alpha A B + beta C, contiguous, with some changes of the default configuration.
  void run(const Problem& problem, const Configuration& changed, const std::vector<float>& a,
           const std::vector<float>& b, std::vector<float>& c, double alpha, double beta = 0) {
    Configuration configuration = small().default_configuration(problem, device_->info());
    for (const auto& [name, value] : changed.values()) configuration.set(name, value);
    ASSERT_EQ(rejection(small(), problem, configuration, device_->info()), "");
    const auto bytes = [](const std::vector<float>& v) { return std::int64_t(v.size() * 4); };
    const DeviceBuffer on_c = uploaded(c.data(), bytes(c));
    const DeviceBuffer on_a = a.empty() ? DeviceBuffer() : uploaded(a.data(), bytes(a));
    const DeviceBuffer on_b = b.empty() ? DeviceBuffer() : uploaded(b.data(), bytes(b));
    Call call;
    call.a = a.empty() ? nullptr : on_a.data(), call.b = b.empty() ? nullptr : on_b.data();
    call.c = on_c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = problem.n;
    call.stride_a = problem.m * problem.k, call.stride_b = problem.k * problem.n;
    call.stride_c = problem.m * problem.n;
    call.alpha = alpha, call.beta = beta;
    launch(problem, configuration, call);
    device_->copy_to_host(c.data(), on_c.data(), bytes(c), nullptr);
    device_->synchronize(nullptr);
  }
};

}  // namespace tilewise::test
