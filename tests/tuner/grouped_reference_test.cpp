// The reference of grouped products: right results are accepted, and rows by the operands of
// another product are not.
#include <gmock/gmock.h>

#include "tilewise/number.hpp"
#include "tuner/reference/generate.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::grouped_reference_test {
namespace {

struct Result {
  Problem problem;
  DataSet set;
  Scalars scalars;
  std::vector<std::byte> a, b, c;
  std::vector<std::int32_t> ends;

  explicit Result(const Reference& reference, DataSet of, int index)
      : problem(reference.problem()), set(of), scalars(reference.scalars(of, index)) {
    for (auto& [bytes, operand] : {std::pair{&a, DataOf::a}, {&b, DataOf::b}, {&c, DataOf::c0}}) {
      const TestData data = reference.data(set, operand);
      bytes->resize(static_cast<std::size_t>(bytes_of(data.type(), data.rows() * data.columns())));
      data.fill_all(bytes->data(), 1);
    }
    ends = group_rows_of(problem);
    multiply();
  }
  void multiply() {
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
    call.stride_b = problem.n * problem.k, call.stride_c = problem.m * problem.n;
    call.alpha = scalars.alpha, call.beta = scalars.beta;
    call.group_rows = ends.data();
    reference_multiply(problem, call, 1);
  }
  Comparison compare(const Reference& reference) const {
    return reference.compare(set, scalars, c.data(), problem.n, problem.m * problem.n, 1);
  }
};

class GroupedReference : public testing::TestWithParam<bool> {
 protected:
  static Reference reference_of(const Problem& problem) {
    ReferenceLimits limits;
    if (GetParam()) limits.flops = 1;  // sampled
    Reference reference = Reference::compute(problem, 5, 1, limits);
    EXPECT_EQ(reference.sampled(), GetParam());
    return reference;
  }
};

TEST_P(GroupedReference, AcceptsWhatIsRight) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt})
    for (const Distribution distribution :
         {Distribution::even, Distribution::zipf, Distribution::one_hot}) {
      Problem problem = typed_problem<float, float>(layout, 90, 33, 50, MathMode::strict, 7);
      problem.grouping = Grouping::rows;
      problem.distribution = distribution;
      const Reference reference = reference_of(problem);
      for (const DataSet set : {DataSet::exact, DataSet::bounded})
        for (const int index : {0, 1}) {
          const Result result(reference, set, index);
          const Comparison compared = result.compare(reference);
          EXPECT_TRUE(compared.ok) << to_string(problem) << ": " << compared.worst;
        }
    }
}

TEST_P(GroupedReference, OfDifferentDepths) {
  Problem problem = typed_problem<float, float>(Layout::tn, 40, 33, 90, MathMode::strict, 7);
  problem.grouping = Grouping::depth;
  problem.distribution = Distribution::zipf;
  const Reference reference = reference_of(problem);
  for (const DataSet set : {DataSet::exact, DataSet::bounded})
    for (const int index : {0, 1}) {
      Result result(reference, set, index);
      EXPECT_TRUE(result.compare(reference).ok) << result.compare(reference).worst;
      result.ends[3] += 1;
      result.multiply();
      EXPECT_FALSE(result.compare(reference).ok);
    }
}

TEST_P(GroupedReference, RefusesARowOfAnotherProduct) {
  Problem problem = typed_problem<float, float>(Layout::nt, 90, 33, 50, MathMode::strict, 7);
  problem.grouping = Grouping::rows;
  problem.distribution = Distribution::zipf;
  const Reference reference = reference_of(problem);
  for (std::size_t product = 0; product + 1 < 7; ++product)
    for (const int shift : {-1, 1}) {
      Result wrong(reference, DataSet::bounded, 0);
      wrong.ends[product] += shift;
      wrong.multiply();
      EXPECT_FALSE(wrong.compare(reference).ok) << product << ", " << shift;
    }
}
INSTANTIATE_TEST_SUITE_P(All, GroupedReference, testing::Values(false, true),
                         [](const auto& value) { return value.param ? "Sampled" : "Full"; });

}  // namespace
}  // namespace tilewise::grouped_reference_test
