// Enqueued products without a plan: a product of another library is validated like a candidate and
// timed briefly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/fake_baseline.hpp"
#include "tests/tuner/fake_kernels.hpp"
#include "tuner/evaluate/benchmark.hpp"
#include "tuner/evaluate/evaluator_local.hpp"

namespace tilewise::enqueued_test {
namespace {

using testing::HasSubstr;

class Enqueued : public testing::Test {
 protected:
  Enqueued() {
    problem.m = 37, problem.n = 29, problem.k = 41;
    set_alignment(problem, {4, 4, 4});
    timing.max_seconds = 0.01;
    reference = std::make_shared<const Reference>(Reference::compute(problem));
  }
  /// A right product that takes `time`.
  Enqueue product(std::chrono::microseconds time = {}) {
    return [this, time](const Call& call) {
      device.perform([this, time, call] {
        const auto scalar = [](double value, const void* on_device) {
          return on_device ? double{*static_cast<const float*>(on_device)} : value;
        };
        reference_multiply(layout_of(problem), problem.m, problem.n, problem.k,
                           scalar(call.alpha, call.alpha_device), static_cast<const float*>(call.a),
                           call.lda, static_cast<const float*>(call.b), call.ldb,
                           scalar(call.beta, call.beta_device), static_cast<float*>(call.c),
                           call.ldc, 1);
        std::this_thread::sleep_for(time);
      });
    };
  }

  fake::Device device;
  Problem problem;
  TimingOptions timing;
  std::shared_ptr<const Reference> reference;
};

TEST_F(Enqueued, ARightLibraryIsTimed) {
  LocalEvaluator evaluator(device, {}, timing);
  evaluator.begin(problem, reference);
  const Evaluation found = evaluator.evaluate_enqueued(product());
  EXPECT_EQ(found.outcome, Outcome::ok) << found.detail;
  ASSERT_TRUE(found.measurement);
  EXPECT_EQ(found.measurement->method, "graph");
  EXPECT_GT(found.error_ratio, 0);
}

TEST_F(Enqueued, AWrongLibraryIsNotTimed) {
  LocalEvaluator evaluator(device, {}, timing);
  evaluator.begin(problem, reference);
  fake::Baseline ignores_scalars(device);  // ignores alpha and beta in device memory
  const Evaluation found = evaluator.evaluate_enqueued(
      [&](const Call& call) { ignores_scalars.multiply(problem, call); });
  EXPECT_EQ(found.outcome, Outcome::wrong_result);
  EXPECT_THAT(found.detail, HasSubstr("read on the device"));
  EXPECT_FALSE(found.measurement);
}

TEST_F(Enqueued, AFailingLibraryIsAnOutcomeAndTheNextOneRuns) {
  LocalEvaluator evaluator(device, {}, timing);
  EXPECT_THROW(evaluator.evaluate_enqueued(product()), Error) << "before begin()";
  evaluator.begin(problem, reference);
  const Evaluation found = evaluator.evaluate_enqueued(
      [](const Call&) { throw Error(ErrorKind::device, "no such product"); });
  EXPECT_EQ(found.outcome, Outcome::launch_error);
  EXPECT_THAT(found.detail, HasSubstr("no such product"));
  EXPECT_EQ(evaluator.evaluate_enqueued(product()).outcome, Outcome::ok);
}

TEST_F(Enqueued, AGlanceTellsFastFromSlowAndLeavesTheHopelessAtAnEstimate) {
  const OwnedStream stream(device);
  const TimingBuffers buffers(device, stream.get(), *reference, 2);
  Benchmark benchmark(device, stream.get(), problem, buffers, timing);
  const double slow = benchmark.glance(product(std::chrono::milliseconds(2)), 0);
  EXPECT_GE(slow, 2000);
  EXPECT_LT(benchmark.glance(product(), slow), slow);
  const std::int64_t graphs = device.graphs;
  EXPECT_GE(benchmark.glance(product(std::chrono::milliseconds(2)), 100), 2000);
  EXPECT_EQ(device.graphs, graphs) << "it took more than an estimate";
}

}  // namespace
}  // namespace tilewise::enqueued_test
