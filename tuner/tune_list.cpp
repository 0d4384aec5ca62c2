#include "tuner/tune_list.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

// After this many failures in a row the device counts as lost.
constexpr int kMostFailures = 3;

/// Whether an error may concern only one device.
bool may_be_the_devices(ErrorKind kind) {
  return kind == ErrorKind::device || kind == ErrorKind::no_device || is_transient(kind);
}

class ListTuning {
 public:
  ListTuning(const std::vector<ListProblem>& problems, const std::vector<ListDevice>& devices,
             JobQueue& queue, const ListContext& context)
      : problems_(problems), devices_(devices), queue_(queue), context_(context) {}

  /// The first device works in the calling thread.
  std::optional<Error> run() {
    {
      std::vector<std::jthread> threads;
      for (std::size_t device = 1; device < devices_.size(); ++device)
        threads.emplace_back([this, device] { work(device); });
      if (!devices_.empty()) work(0);
    }
    if (unexpected_) std::rethrow_exception(unexpected_);
    return failure_;
  }

 private:
  void work(std::size_t device) noexcept {
    try {
      take_part(device);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      unexpected_ = std::current_exception();
      queue_.stop();
    }
  }

  /// After a failure the device is opened again, which determines whether it is lost.
  void take_part(std::size_t device) {
    std::shared_ptr<Evaluator> evaluator;
    for (int failures = 0;;) {
      try {
        if (!evaluator) evaluator = devices_[device].open();
      } catch (const Error& error) {
        return lose(device, error);
      }
      const JobQueue::Turn turn = queue_.next(device, context_.stop);
      if (!turn.job && !turn.search) return;
      const std::optional<Error> failure =
          turn.job ? tune_one(device, *turn.job, *evaluator) : serve(device, turn, *evaluator);
      failures = failure ? failures + 1 : 0;
      if (!failure) continue;
      if (failures == kMostFailures) return lose(device, *failure);
      if (context_.failed) context_.failed(device, *failure, false);
      evaluator.reset();
    }
  }

  /// Returns an error that requires reopening the device.
  std::optional<Error> tune_one(std::size_t device, std::size_t job, Evaluator& evaluator) {
    const auto search = std::make_shared<EvaluationQueue>();
    const bool shared = queue_.has_alike(device);
    if (shared) queue_.share(job, search);
    std::optional<Error> failure;
    try {
      TuneResult result = tune_on(device, job, evaluator, shared ? search.get() : nullptr);
      failure = result.failure;
      if (!result.interrupted && again(device, job, failure)) return failure;
      std::vector<std::size_t> devices = search->devices();
      devices.insert(devices.begin(), device);
      context_.finished(job, std::move(result), std::move(devices));
      if (failure && failure->kind() == ErrorKind::database) queue_.stop();
    } catch (const Error& error) {
      search->close();
      if (again(device, job, error)) return error;
      end(error);
      if (!may_be_the_devices(error.kind())) queue_.stop();
      if (error.kind() == ErrorKind::device) {  // the device is reopened for the next job
        queue_.finished(job);
        return error;
      }
    }
    queue_.finished(job);
    return std::nullopt;
  }

  TuneResult tune_on(std::size_t device, std::size_t job, Evaluator& evaluator,
                     EvaluationQueue* shared) {
    TuneOptions options = context_.options(device, job);
    options.compile_threads = std::max(
        1, thread_count(options.compile_threads) / static_cast<int>(queue_.most_at_once()));
    const auto show = [&](const TuneProgress& now) {
      if (context_.progress) context_.progress(device, now);
    };
    TuneContext tuning{context_.database,
                       context_.cache,
                       context_.compiler(devices_[device].kind),
                       evaluator,
                       show,
                       context_.stop,
                       shared};
    return tune(problems_[job].problem, options, tuning);
  }

  bool again(std::size_t device, std::size_t job, const std::optional<Error>& failure) {
    return failure && may_be_the_devices(failure->kind()) && queue_.try_again(device, job);
  }

  std::optional<Error> serve(std::size_t device, const JobQueue::Turn& turn, Evaluator& evaluator) {
    if (context_.serves) context_.serves(device, turn.of);
    std::optional<Error> failure;
    try {
      turn.search->serve(evaluator, device);
    } catch (const Error& error) {
      failure = error;
    }
    if (context_.serves) context_.serves(device, std::nullopt);
    return failure;
  }

  void lose(std::size_t device, const Error& error) {
    if (queue_.lost(device)) {
      if (context_.failed) context_.failed(device, error, true);
      return;
    }
    end(error);
  }

  void end(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
  }

  const std::vector<ListProblem>& problems_;
  const std::vector<ListDevice>& devices_;
  JobQueue& queue_;
  const ListContext& context_;
  std::mutex mutex_;  // guards all members below
  std::optional<Error> failure_;
  std::exception_ptr unexpected_;
};

}  // namespace

std::optional<Error> tune_list(const std::vector<ListProblem>& problems,
                               const std::vector<ListDevice>& devices, JobQueue& queue,
                               const ListContext& context) {
  return ListTuning(problems, devices, queue, context).run();
}

}  // namespace tilewise
