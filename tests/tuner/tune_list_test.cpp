// A list of problems on several devices, and a search on several devices.
#include "tuner/tune_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "tests/tuner/fake_tuning.hpp"

namespace tilewise::tune_list_test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

/// Waits until `count` threads have arrived; false after a long time.
class Meeting {
 public:
  explicit Meeting(int count) : missing_(count) {}
  void arrive() {
    const std::lock_guard lock(mutex_);
    --missing_;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds patience = std::chrono::seconds(30)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

struct DeviceEvaluator : FakeEvaluator {
  DeviceInfo device_info() override {
    DeviceInfo info = FakeEvaluator::device_info();
    info.name = gpu_name;
    return info;
  }
  void begin(const Problem& problem, std::shared_ptr<const Reference> reference) override {
    if (before_begin) before_begin();
    FakeEvaluator::begin(problem, std::move(reference));
  }
  Evaluation evaluate(const EvaluationRequest& request) override {
    if (gone) throw Error(ErrorKind::device, "the device is gone");
    Evaluation evaluation = FakeEvaluator::evaluate(request);
    if (after_evaluate) after_evaluate();
    return evaluation;
  }
  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool baselines) override {
    if (gone) throw Error(ErrorKind::device, "the device is gone");
    return FakeEvaluator::race(finalists, baselines);
  }
  std::string gpu_name = "made-up GPU";
  std::function<void()> before_begin, after_evaluate;
  bool gone = false;
};

struct TuneList : testing::Test {
  TuneList() {
    options.strategy = "exhaustive";
    options.templates = {&kernel};
    options.compile_threads = 2;
  }

  void add_devices(std::size_t count, std::size_t kind = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      DeviceEvaluator& evaluator = evaluators.emplace_back();
      if (kind > 0) evaluator.gpu_name = "another GPU";
      devices.push_back({kind, [&evaluator] {
                           if (evaluator.gone) throw Error(ErrorKind::device, "cannot be opened");
                           return std::shared_ptr<Evaluator>(std::shared_ptr<void>(), &evaluator);
                         }});
    }
  }
  void add_problems(std::int64_t count, std::size_t kind = 0) {
    for (std::int64_t i = 1; i <= count; ++i) {
      Problem problem;
      problem.m = problem.n = problem.k = 8 * i;
      problems.push_back({problem, {kind, options.budget_seconds, flops_of(problem), 0}});
    }
  }
  /// Makes the first call of begin() on each device wait until all devices have reached it.
  void begin_together() {
    together.emplace(static_cast<int>(evaluators.size()));
    for (DeviceEvaluator& evaluator : evaluators)
      evaluator.before_begin = [this, first = true]() mutable {
        if (!std::exchange(first, false)) return;
        together->arrive();
        EXPECT_TRUE(together->wait()) << "a device has no work";
      };
  }

  std::optional<Error> run() {
    std::vector<QueuedJob> jobs;
    for (const ListProblem& problem : problems) jobs.push_back(problem.job);
    std::vector<std::size_t> kinds;
    for (const ListDevice& device : devices) kinds.push_back(device.kind);
    JobQueue queue(jobs, kinds);
    ListContext context{database, &cache, &stop};
    context.compiler = [this](std::size_t) { return &compiler; };
    context.options = [this](std::size_t, std::size_t) { return options; };
    context.finished = [this](std::size_t problem, TuneResult result,
                              std::vector<std::size_t> measured_on) {
      const std::lock_guard lock(mutex);
      EXPECT_FALSE(results.contains(problem)) << "twice: " << problem;
      on[problem] = std::move(measured_on);
      results[problem] = std::move(result);
    };
    context.failed = [this](std::size_t device, const Error&, bool is_lost) {
      const std::lock_guard lock(mutex);
      ++failures;
      if (is_lost) lost.push_back(device);
    };
    return tune_list(problems, devices, queue, context);
  }
  std::size_t evaluated() const {
    std::size_t count = 0;
    for (const DeviceEvaluator& evaluator : evaluators) count += evaluator.evaluated.size();
    return count;
  }

  const KernelTemplate kernel = grid_template();
  TuneOptions options;
  Database database = Database::in_memory();
  ImageCache cache;
  GridCompiler compiler;
  std::deque<DeviceEvaluator> evaluators;
  std::vector<ListDevice> devices;
  std::vector<ListProblem> problems;
  std::optional<Meeting> together;
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards the following
  std::map<std::size_t, TuneResult> results;
  std::map<std::size_t, std::vector<std::size_t>> on;
  std::vector<std::size_t> lost;
  int failures = 0;
};

TEST_F(TuneList, AlikeDevicesShareTheProblems) {
  add_devices(2);
  add_problems(5);
  begin_together();
  EXPECT_FALSE(run());
  ASSERT_THAT(results, SizeIs(5));
  for (const auto& [problem, result] : results) {
    EXPECT_EQ(result.evaluated, 64);
    const auto stored =
        database.winner(problems[problem].problem, gpu_key(evaluators.front().device_info()));
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->record.candidate.configuration.at("X"), 6);
  }
  EXPECT_EQ(evaluated(), 5U * (64 - 8)) << "all but those that the compiler refuses, each once";
  for (const DeviceEvaluator& evaluator : evaluators) EXPECT_GE(evaluator.begins, 1);
  EXPECT_EQ(evaluators[0].races + evaluators[1].races, 5);
}

TEST_F(TuneList, AlikeDevicesShareTheCandidatesOfOneProblem) {
  add_devices(2);
  add_problems(1);
  Meeting both(2);  // both have evaluated something
  for (DeviceEvaluator& evaluator : evaluators)
    evaluator.after_evaluate = [&both, first = true]() mutable {
      if (std::exchange(first, false)) both.arrive();
      both.wait(std::chrono::milliseconds(200));
    };
  EXPECT_FALSE(run());
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_THAT(on[0], SizeIs(2));
  EXPECT_EQ(results[0].evaluated, 64);
  EXPECT_EQ(evaluated(), 64U - 8);
  EXPECT_EQ(database.records({}).size(), 64U) << "every candidate once";
  EXPECT_EQ(evaluators[on[0][0]].races, 1) << "on one device alone";
  EXPECT_EQ(evaluators[on[0][1]].races, 0);
  EXPECT_EQ(results[0].winner->record.candidate.configuration.at("X"), 6);
}

TEST_F(TuneList, UnlikeDevicesEachTuneTheWholeList) {
  add_devices(1);
  add_devices(1, 1);
  add_problems(3);
  add_problems(3, 1);
  begin_together();
  EXPECT_FALSE(run());
  EXPECT_THAT(results, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_THAT(on[i], ElementsAre(i / 3));
  for (const DeviceEvaluator& evaluator : evaluators) EXPECT_EQ(evaluator.races, 3);
}

TEST_F(TuneList, TheWorkOfALostDeviceIsDoneByTheOther) {
  add_devices(2);
  add_problems(4);
  begin_together();
  DeviceEvaluator& second = evaluators[1];
  second.after_evaluate = [&second] { second.gone = second.evaluated.size() == 3; };
  EXPECT_FALSE(run());
  EXPECT_THAT(lost, ElementsAre(1));
  ASSERT_THAT(results, SizeIs(4));
  for (const auto& [problem, result] : results) {
    EXPECT_TRUE(result.winner);
    EXPECT_FALSE(result.failure);
    EXPECT_EQ(on[problem].front(), 0U);
  }
  EXPECT_EQ(evaluated(), 4U * (64 - 8)) << "what the lost device measured is not measured again";
}

TEST_F(TuneList, ADeviceThatCannotBeOpenedIsLeftOut) {
  add_devices(2);
  add_problems(2);
  evaluators[0].gone = true;
  EXPECT_FALSE(run());
  EXPECT_THAT(lost, ElementsAre(0));
  EXPECT_THAT(results, SizeIs(2));
}

TEST_F(TuneList, ADeviceThatFailedOnceIsOpenedAnewAndGoesOn) {
  add_devices(2);
  add_problems(2);
  begin_together();
  evaluators[1].before_begin = [meet = evaluators[1].before_begin, first = true]() mutable {
    meet();
    if (std::exchange(first, false)) throw Error(ErrorKind::device, "an error that does not last");
  };
  EXPECT_FALSE(run());
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(lost, ElementsAre());
  EXPECT_THAT(results, SizeIs(2));
}

TEST_F(TuneList, WithoutAnyDeviceTheErrorIsReturned) {
  add_devices(2);
  add_problems(2);
  for (DeviceEvaluator& evaluator : evaluators) evaluator.gone = true;
  const std::optional<Error> error = run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_THAT(lost, SizeIs(1)) << "the other one is the error";
  EXPECT_THAT(results, SizeIs(0));
}

TEST_F(TuneList, AnInterruptionEndsAllAndKeepsWhatWasMeasured) {
  add_devices(2);
  add_problems(6);
  begin_together();
  evaluators[0].stop = &stop;
  evaluators[0].stop_after = 5;
  evaluators[1].after_evaluate = [this] {
    while (evaluators[1].evaluated.size() > 40 && !stop) std::this_thread::yield();
  };
  EXPECT_FALSE(run());
  ASSERT_THAT(results, SizeIs(2)) << "those under way";
  std::size_t records = 0;
  for (const auto& [problem, result] : results) {
    EXPECT_TRUE(result.interrupted);
    EXPECT_TRUE(result.winner);
    records += static_cast<std::size_t>(result.evaluated);
  }
  EXPECT_EQ(database.records({}).size(), records);
  stop = false;
  results.clear();
  evaluators[0].stop = nullptr;
  evaluators[1].after_evaluate = nullptr;
  EXPECT_FALSE(run());
  EXPECT_THAT(results, SizeIs(6)) << "a second run does the rest";
}

TEST_F(TuneList, AnErrorThatIsNoDevicesEndsTheList) {
  add_devices(2);
  add_problems(4);
  options.budget_seconds = 0;
  const std::optional<Error> error = run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(results, SizeIs(0));
  EXPECT_EQ(failures, 0);
}

/// The queue between a search and its further devices.
struct TuneListQueue : TuneList {
  static Built built(std::int64_t x) {
    Built one;
    one.candidate.configuration = {{"X", x}};
    return one;
  }
  EvaluationQueue queue;
};

TEST_F(TuneListQueue, ACandidateOfADeviceThatFailsWaitsAgain) {
  DeviceEvaluator evaluator;
  evaluator.gone = true;
  Problem problem;
  problem.m = problem.n = problem.k = 8;
  queue.begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
  queue.add(built(4), 0);
  EXPECT_THROW(queue.serve(evaluator, 1), Error);
  EXPECT_EQ(queue.under_way(), 1U);
  const auto back = queue.take_back();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->candidate.configuration.at("X"), 4);
  EXPECT_FALSE(queue.take_back());
  EXPECT_FALSE(queue.wants_more()) << "no device is left";
  EXPECT_THAT(queue.devices(), SizeIs(0));
}

TEST_F(TuneListQueue, ClosedBeforeTheSearchBeginsItEnds) {
  DeviceEvaluator evaluator;
  std::thread serves([&] { queue.serve(evaluator, 1); });
  EXPECT_THAT(queue.close(), SizeIs(0));
  serves.join();
  EXPECT_EQ(evaluator.begins, 0);
}

}  // namespace
}  // namespace tilewise::tune_list_test
