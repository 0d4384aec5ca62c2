#include "tuner/search/warm_start.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "matmul/portfolio.hpp"
#include "tests/support/fake_compiler.hpp"
#include "tests/support/problems.hpp"
#include "tests/tuner/fake_tuning.hpp"

namespace tilewise::warm_start_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Problem make_problem(std::int64_t size, Layout layout = Layout::nn) {
  Problem problem;
  problem.m = problem.n = problem.k = size;
  set_layout(problem, layout);
  return problem;
}

Candidate candidate(int x, int y) { return {"grid", {{"X", x}, {"Y", y}}}; }

struct WarmStart : testing::Test {
  const KernelTemplate kernel = grid_template();
  const std::string gpu = "made-up GPU|9.0|132";
  Database database = Database::in_memory();

  std::int64_t add(const Problem& problem, const Candidate& of, double median_us) {
    Record record;
    record.problem = problem;
    record.candidate = of;
    record.gpu = gpu;
    record.source_hash = "any";
    if (median_us > 0) {
      record.measurement.emplace();
      record.measurement->median_us = median_us;
    } else {
      record.outcome = Outcome::wrong_result;
    }
    return database.add(record);
  }
  std::vector<Candidate> good(const Problem& problem, const Subspace& subspace = {}) const {
    const SearchSpace space(problem, nominal_device({9, 0, true}), {&kernel}, subspace);
    return transferred_candidates(database, space, gpu);
  }
};

TEST_F(WarmStart, NearestProblemFirstFastestFirstEachOnce) {
  database.set_winner(add(make_problem(64), candidate(1, 1), 9));
  add(make_problem(64), candidate(2, 1), 10);
  database.set_winner(add(make_problem(1000), candidate(4, 4), 5));
  add(make_problem(1000), candidate(2, 1), 6);
  EXPECT_THAT(good(make_problem(100)),
              ElementsAre(candidate(1, 1), candidate(2, 1), candidate(4, 4)));
  EXPECT_THAT(good(make_problem(900)),
              ElementsAre(candidate(4, 4), candidate(2, 1), candidate(1, 1)));
}

TEST_F(WarmStart, OnlyAFewOfEachProblem) {
  for (int y = 0; y < 8; ++y) {
    const std::int64_t id = add(make_problem(64), candidate(1, y), 10 + y);
    if (y == 0) database.set_winner(id);
  }
  EXPECT_THAT(good(make_problem(32)),
              ElementsAre(candidate(1, 0), candidate(1, 1), candidate(1, 2), candidate(1, 3)));
}

TEST_F(WarmStart, OtherLayoutsAndTypesOfTheSameWidthCount) {
  database.set_winner(add(make_problem(64, Layout::tt), candidate(1, 1), 9));
  database.set_winner(add(make_problem(256), candidate(2, 2), 9));
  database.set_winner(add(make_problem(4096), candidate(4, 4), 9));
  EXPECT_THAT(good(make_problem(64)),
              ElementsAre(candidate(1, 1), candidate(2, 2), candidate(4, 4)));
  EXPECT_THAT(good(make_problem(256, Layout::nn)), ElementsAre(candidate(1, 1), candidate(4, 4)));

  Problem bf16 = make_problem(64), f16 = make_problem(64), f64 = make_problem(64);
  set_types(bf16, DType::bf16, DType::bf16, MathMode::strict);
  set_types(f16, DType::f16, DType::f16, MathMode::strict);
  set_types(f64, DType::f64, DType::f64, MathMode::strict);
  database.set_winner(add(bf16, candidate(4, 2), 9));
  EXPECT_THAT(good(f16), ElementsAre(candidate(4, 2)));
  EXPECT_THAT(good(f64), IsEmpty());
}

TEST_F(WarmStart, NothingOfTheProblemItselfOrInvalidHere) {
  database.set_winner(add(make_problem(64), candidate(1, 1), 9));
  EXPECT_THAT(good(make_problem(64)), IsEmpty());
  EXPECT_THAT(good(make_problem(100), {{"X", {2, 4}}}), IsEmpty());
  add(make_problem(64), candidate(2, 2), 0);  // rejected
  EXPECT_THAT(good(make_problem(100)), ElementsAre(candidate(1, 1)));
}

std::vector<Candidate> shipped(const Problem& problem, const DeviceInfo& device) {
  const Database database = Database::in_memory();
  const SearchSpace space(problem, device, select_templates());
  std::vector<Candidate> candidates = shipped_candidates(database, space);
  for (const Candidate& candidate : candidates)
    EXPECT_TRUE(space.allows(candidate)) << to_string(candidate);
  return candidates;
}

/// The first f32 product of nn and of bf16 that a portfolio of the capability has.
Problem shipped_problem(DType type, const DeviceInfo& device) {
  for (const Record& record : portfolios_of_capability(device)) {
    const Problem& problem = record.problem;
    if (problem.a.type == type && problem.c.type == type && problem.batch == 1 &&
        problem.math == MathMode::strict && layout_of(problem) == Layout::nn &&
        std::min({problem.m, problem.n, problem.k}) >= 64)
      return problem;
  }
  return {};
}

bool has_a_record_of(const std::vector<Candidate>& candidates, const Problem& problem,
                     const DeviceInfo& device) {
  const std::vector<Record> records = portfolios_of_capability(device);
  return std::any_of(records.begin(), records.end(), [&](const Record& record) {
    return record.problem == problem &&
           std::find(candidates.begin(), candidates.end(), record.candidate) != candidates.end();
  });
}

TEST(ShippedCandidates, HaveTheWinnersOfTheVerySize) {
  const DeviceInfo device = nominal_device({9, 0, true});
  const Problem problem = shipped_problem(DType::f32, device);
  const std::vector<Candidate> candidates = shipped(problem, device);
  ASSERT_THAT(candidates, testing::SizeIs(testing::AllOf(testing::Ge(2u), testing::Le(6u))));
  EXPECT_TRUE(has_a_record_of(candidates, problem, device)) << to_string(problem);
}

TEST(ShippedCandidates, HaveTheWinnersOfTheOther16BitFloat) {
  const DeviceInfo device = nominal_device({9, 0, true});
  const Problem bf16 = shipped_problem(DType::bf16, device);
  const Problem f16 =
      test::with_kind(bf16, *find_product_kind(DType::f16, DType::f16, MathMode::strict));
  EXPECT_TRUE(has_a_record_of(shipped(f16, device), bf16, device)) << to_string(bf16);
}

/// Every candidate takes 100 us.
class EqualTimes : public FakeEvaluator {
 public:
  Evaluation evaluate(const EvaluationRequest& request) override {
    Evaluation evaluation;
    evaluation.outcome = Outcome::ok;
    if (request.observe_seconds > 0) evaluation.observed = 100;
    evaluation.measurement = Measurement{};
    evaluation.measurement->median_us = 100;
    return evaluation;
  }
  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool) override {
    RaceResult result;
    for (const EvaluationRequest& one : finalists) result.finalists.push_back(evaluate(one));
    return result;
  }
};

/// A search of 50 seconds whose first compile takes 80.
struct ShortSearch : testing::Test {
  ShortSearch() {
    compiler.fault = [this](const KernelSpec&) { seconds = 80; };
    options.compile_threads = 4;
    options.budget_seconds = 50;
  }
  TuneResult run() {
    TuneContext context{database, nullptr, &compiler, evaluator, {}, &stop};
    context.clock = [this] { return static_cast<double>(seconds); };
    return tune(problem, options, context);
  }
  bool is_measured(const Candidate& candidate) const {
    const std::vector<Record> records = database.records({});
    return std::any_of(records.begin(), records.end(),
                       [&](const Record& record) { return record.candidate == candidate; });
  }

  const Problem problem = make_problem(256);
  Database database = Database::in_memory();
  EqualTimes evaluator;
  FakeCompiler compiler;
  TuneOptions options;
  std::atomic<bool> stop{false};
  std::atomic<int> seconds{0};
};

// Else it could store a winner that is slower than what served before it.
TEST_F(ShortSearch, MeasuresTheBestShippedCandidate) {
  const std::vector<Candidate> best = shipped(problem, evaluator.device_info());
  ASSERT_THAT(best, testing::Not(IsEmpty()));
  const TuneResult result = run();
  EXPECT_TRUE(result.winner);
  EXPECT_LT(result.evaluated, 30);
  EXPECT_TRUE(is_measured(best.front()));
}

TEST_F(ShortSearch, BeginsWithSeveralShippedCandidates) {
  const std::vector<Candidate> best = shipped(problem, evaluator.device_info());
  ASSERT_THAT(best, testing::SizeIs(testing::Ge(3u)));
  options.max_evaluations = 3, options.budget_seconds = 1000;
  run();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(is_measured(best[i])) << i;
}

// As the probes of an order of sums: their winners serve products, too.
TEST_F(ShortSearch, MeasuresItWhenBrief) {
  options.brief = true;
  EXPECT_TRUE(run().winner);
  EXPECT_TRUE(is_measured(shipped(problem, evaluator.device_info()).front()));
}

TEST_F(ShortSearch, MeasuresTheFirstOfTheCallersListWhenBrief) {
  const KernelTemplate& naive = find_template("naive");
  options.brief = true;
  options.first = {{"naive", naive.default_configuration(problem, evaluator.device_info())}};
  EXPECT_TRUE(run().winner);
  EXPECT_TRUE(is_measured(options.first.front()));
}

TEST_F(ShortSearch, MeasuresTheCallersOwnListAlone) {
  const KernelTemplate& naive = find_template("naive");
  options.only = {{"naive", naive.default_configuration(problem, evaluator.device_info())}};
  EXPECT_EQ(run().evaluated, 1);
  EXPECT_TRUE(is_measured(options.only.front()));
}

TEST(ShippedCandidates, AreNoneOnOtherCapabilitiesAndOnTheCpu) {
  EXPECT_THAT(shipped(make_problem(1024), nominal_device({8, 0, false})), IsEmpty());
  DeviceInfo cpu = nominal_device({9, 0, true});
  cpu.target.host = true;
  EXPECT_THAT(shipped(make_problem(64), cpu), IsEmpty());
}

}  // namespace
}  // namespace tilewise::warm_start_test
