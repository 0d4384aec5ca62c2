// Reference::compare: right results pass and wrong results fail, with every element stored and with
// samples.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tuner/reference/reference.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::compare_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr ReferenceLimits kSampleAll = {0, 0};  // even the smallest product is sampled

Problem make_problem(std::int64_t m, std::int64_t n, std::int64_t k, Layout layout = Layout::nn) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

std::vector<float> data(const Reference& reference, DataSet set, DataOf operand) {
  const TestData values = reference.data(set, operand);
  std::vector<float> all(static_cast<std::size_t>(values.rows() * values.columns()));
  values.fill_all(all.data(), 0);
  return all;
}

// A right kernel's result (f64 sums, well within any bound), with a longer leading dimension.
struct Result {
  std::vector<float> c;
  std::int64_t ldc;
  float& at(std::int64_t i, std::int64_t j) { return c[static_cast<std::size_t>(i * ldc + j)]; }
};

Result multiply(const Reference& reference, DataSet set, const Scalars& scalars) {
  const Problem& p = reference.problem();
  Result result{{}, p.n + 3};
  result.c.assign(static_cast<std::size_t>(p.m * result.ldc), kNaN);
  const TestData c0 = reference.data(set, DataOf::c0);
  for (std::int64_t i = 0; i < p.m; ++i) c0.fill(i * p.n, p.n, &result.c[i * result.ldc]);
  const std::vector<float> a = data(reference, set, DataOf::a);
  const std::vector<float> b = data(reference, set, DataOf::b);
  reference_multiply(layout_of(p), p.m, p.n, p.k, scalars.alpha, a.data(), min_lda(p), b.data(),
                     min_ldb(p), scalars.beta, result.c.data(), result.ldc);
  return result;
}

class Compare : public testing::TestWithParam<bool> {  // sampled?
 protected:
  Reference compute(const Problem& problem) const {
    const Reference reference =
        Reference::compute(problem, 3, 0, GetParam() ? kSampleAll : ReferenceLimits{});
    EXPECT_EQ(reference.sampled(), GetParam() && problem.m * problem.n > 0);
    return Reference::attach(
        problem, SharedBlock::map(dup(reference.block().fd()), reference.block().bytes()));
  }
};
INSTANTIATE_TEST_SUITE_P(, Compare, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Sampled" : "Full"; });

TEST_P(Compare, RightResultsPassForEveryShapeLayoutAndScalar) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {1, 1, 0},     {1, 300, 7},     {300, 1, 7},
                                    {5, 4, 1},    {0, 5, 5},     {5, 0, 5},       {7, 9, 0},
                                    {64, 64, 64}, {65, 33, 129}, {129, 257, 200}, {40, 700, 11}};
  for (const auto& [m, n, k] : shapes) {
    for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
      const Reference reference = compute(make_problem(m, n, k, layout));
      for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
        for (int index = 0; index < 2; ++index) {
          const Scalars scalars = reference.scalars(set, index);
          const Result result = multiply(reference, set, scalars);
          const Comparison found = reference.compare(set, scalars, result.c.data(), result.ldc);
          EXPECT_TRUE(found.ok) << to_string(reference.problem()) << ": " << found.worst;
          EXPECT_LE(found.error_ratio, set == DataSet::exact ? 0 : 1);
        }
      }
    }
  }
}

// Makes one element wrong at each of several places and expects a message that names it.
void expect_caught(const Reference& reference, DataSet set, float wrong, bool relative) {
  const Problem& p = reference.problem();
  const Scalars scalars = reference.scalars(set, 1);
  const Result right = multiply(reference, set, scalars);
  const std::int64_t places[][2] = {{0, 0},       {p.m - 1, p.n - 1}, {p.m / 3, p.n / 3 * 2},
                                    {0, p.n - 1}, {p.m - 1, 0},       {77, 51}};
  for (const auto& [i, j] : places) {
    Result result = right;
    result.at(i, j) = relative ? result.at(i, j) + wrong : wrong;
    const Comparison found = reference.compare(set, scalars, result.c.data(), result.ldc);
    EXPECT_FALSE(found.ok);
    EXPECT_FALSE(found.error_ratio <= 1);
    const std::string name = "C[" + std::to_string(i) + "][" + std::to_string(j) + "]";
    EXPECT_NE(found.worst.find(name), std::string::npos) << found.worst << " wants " << name;
  }
}

TEST_P(Compare, OneWrongElementIsCaughtAndNamed) {
  expect_caught(compute(make_problem(150, 130, 100)), DataSet::exact, 1, true);
}
TEST_P(Compare, NanIsCaughtAndNamed) {
  const Reference reference = compute(make_problem(150, 130, 100, Layout::tn));
  expect_caught(reference, DataSet::exact, kNaN, false);
  expect_caught(reference, DataSet::bounded, kNaN, false);
}
TEST_P(Compare, InfinityIsCaughtAndNamed) {
  const Reference reference = compute(make_problem(150, 130, 100, Layout::nt));
  expect_caught(reference, DataSet::exact, -kInf, false);
  expect_caught(reference, DataSet::bounded, kInf, false);
}
TEST_P(Compare, AnUnwrittenElementIsCaught) {
  const Reference reference = compute(make_problem(150, 130, 100, Layout::tt));
  const Scalars scalars = reference.scalars(DataSet::exact, 1);
  Result result = multiply(reference, DataSet::exact, scalars);
  result.at(99, 71) = data(reference, DataSet::exact, DataOf::c0)[99 * 130 + 71];
  EXPECT_FALSE(reference.compare(DataSet::exact, scalars, result.c.data(), result.ldc).ok);
}

TEST_P(Compare, SwappedOrForgottenScalarsAreCaught) {
  const Reference reference = compute(make_problem(90, 80, 70));
  for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
    const Scalars right = reference.scalars(set, 1);
    for (const Scalars wrong : {Scalars{right.beta, right.alpha}, Scalars{right.alpha, 0},
                                Scalars{1, right.beta}, Scalars{right.alpha, 1}}) {
      const Result result = multiply(reference, set, wrong);
      EXPECT_FALSE(reference.compare(set, right, result.c.data(), result.ldc).ok);
    }
  }
}

TEST_P(Compare, TwoColumnsExchangedAreCaught) {
  const Reference reference = compute(make_problem(90, 200, 70));
  const Scalars scalars = reference.scalars(DataSet::exact, 0);
  Result result = multiply(reference, DataSet::exact, scalars);
  for (std::int64_t i = 0; i < 90; ++i) std::swap(result.at(i, 41), result.at(i, 43));
  EXPECT_FALSE(reference.compare(DataSet::exact, scalars, result.c.data(), result.ldc).ok);
}

// ---- in pieces ----

TEST_P(Compare, PiecesInAnyOrderFromAnyThreadGiveTheSame) {
  const Reference reference = compute(make_problem(150, 130, 100, Layout::nt));
  const Scalars scalars = reference.scalars(DataSet::bounded, 1);
  Result result = multiply(reference, DataSet::bounded, scalars);
  for (const bool spoilt : {false, true}) {
    if (spoilt) result.at(93, 17) += 1;
    const auto in_pieces = [&](int threads, bool backwards) {
      ResultCheck check(reference, DataSet::bounded, scalars);
      parallel_for(15, threads, [&](std::int64_t index, int) {
        const std::int64_t first = 10 * (backwards ? 14 - index : index);
        check.rows(first, 10, &result.c[static_cast<std::size_t>(first * result.ldc)], result.ldc);
      });
      return check.finish();
    };
    const Comparison one = in_pieces(1, false);
    EXPECT_EQ(one.ok, !spoilt);
    for (const Comparison& other : {in_pieces(1, true), in_pieces(3, false)}) {
      EXPECT_EQ(other.ok, one.ok);
      EXPECT_EQ(other.worst, one.worst);
      EXPECT_EQ(other.error_ratio, one.error_ratio);
      EXPECT_EQ(other.normwise_error, one.normwise_error);
    }
  }
}

// ---- the bound ----

// The least accurate right kernel: one f32 accumulator along k.
template <typename Round>
Result multiply_in_f32(const Reference& reference, const Round& round) {
  const Problem& p = reference.problem();
  Result result{{}, p.n};
  result.c.resize(static_cast<std::size_t>(p.m * p.n));
  const std::vector<float> a = data(reference, DataSet::bounded, DataOf::a);
  const std::vector<float> b = data(reference, DataSet::bounded, DataOf::b);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        sum += round(a[static_cast<std::size_t>(i * p.k + l)]) *
               round(b[static_cast<std::size_t>(l * p.n + j)]);
      }
      result.at(i, j) = sum;
    }
  }
  return result;
}

float keep(float x) { return x; }
float to_tf32(float x) {  // 10 bits of fraction, to nearest
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000U) & ~0x1FFFU;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

TEST(ErrorBound, HoldsForSequentialF32SumsOfAnyLength) {
  for (const std::int64_t k : {1, 2, 17, 300, 4096, 20000, 100000}) {
    const Reference reference = Reference::compute(make_problem(16, 12, k));
    const Result result = multiply_in_f32(reference, keep);
    const Comparison found =
        reference.compare(DataSet::bounded, {1, 0}, result.c.data(), result.ldc);
    EXPECT_TRUE(found.ok) << k << ": " << found.worst;
    EXPECT_LT(found.error_ratio, 0.9) << k;
    EXPECT_LT(found.normwise_error, 1e-4);
    if (k > 1) {
      EXPECT_GT(found.normwise_error, 1e-9);
    }
  }
}

TEST(ErrorBound, HoldsForASingleElement) {
  for (std::int64_t k = 1; k < 400; k += 3) {
    const Reference reference = Reference::compute(make_problem(1, 1, k), 1000 + k);
    const Result result = multiply_in_f32(reference, keep);
    EXPECT_TRUE(reference.compare(DataSet::bounded, {1, 0}, result.c.data(), 1).ok) << k;
  }
}

TEST(ErrorBound, FailsForCoarserArithmetic) {
  for (const bool sampled : {false, true}) {
    for (const std::int64_t k : {8, 64, 1000, 20000, 100000}) {
      const Reference reference = Reference::compute(make_problem(16, 12, k), 1, 0,
                                                     sampled ? kSampleAll : ReferenceLimits{});
      const Result result = multiply_in_f32(reference, to_tf32);
      const Comparison found =
          reference.compare(DataSet::bounded, {1, 0}, result.c.data(), result.ldc);
      EXPECT_FALSE(found.ok) << k;
      EXPECT_GT(found.error_ratio, 1) << k;
      EXPECT_FALSE(found.worst.empty());
    }
  }
}

}  // namespace
}  // namespace tilewise::compare_test
