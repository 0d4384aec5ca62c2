#include "cli/tune/tune_tasks.hpp"

#include <mutex>
#include <utility>

#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "tuner/tune_list.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

class TasksRun {
 public:
  TasksRun(const std::vector<Task>& tasks, Database& database, ImageCache* cache,
           const BenchOptions& bench, const Output& output)
      : tasks_(tasks), database_(database), cache_(cache), bench_(bench), output_(output) {
    for (std::size_t kind = 0; kind < tasks.size(); ++kind) {
      for (const Gpu& gpu : tasks[kind].gpus) add(kind, gpu);
      for (std::size_t i = 0; i < tasks[kind].problems.size(); ++i) add(kind, i);
    }
    tuned_.resize(problems_.size());
  }

  TasksResult run() {
    std::vector<QueuedJob> jobs;
    for (const ListProblem& problem : problems_) jobs.push_back(problem.job);
    std::vector<std::size_t> kinds;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      kinds.push_back(devices_[i].kind);
      names.push_back("device " + device_name(gpus_[i]));
      if (gpus_[i].index == kHostIndex && devices_.size() > 1)  // may occur several times
        names.back() += " #" + std::to_string(i + 1);
    }
    JobQueue queue(jobs, kinds, host_bytes_available());
    TasksResult result;
    {
      const bool one = names.size() == 1 && problems_.size() == 1;
      DevicesProgress progress(output_, names, [&queue, one] {
        return one ? std::string() : state_line(queue.state());
      });
      result.failure = tune_list(problems_, devices_, queue, context(progress));
    }
    for (std::optional<Tuned>& tuned : tuned_)
      if (tuned) result.results.push_back(std::move(*tuned));
    result.lost = std::move(lost_);
    return result;
  }

 private:
  void add(std::size_t kind, const Gpu& gpu) {
    gpus_.push_back(gpu);
    devices_.push_back({kind, [this, gpu] { return open_evaluator(gpu, bench_); }});
  }

  void add(std::size_t kind, std::size_t index) {
    const Task& task = tasks_[kind];
    const Problem& problem = task.problems[index];
    const QueuedJob job{kind, task.budgets[index], flops_of(problem),
                        host_bytes_needed(problem, task.gpus.front().info)};
    problems_.push_back({problem, job});
    before_.push_back(database_.winner(problem, gpu_key(task.gpus.front().info)));
  }

  static std::string state_line(const JobQueue::State& state) {
    return std::to_string(state.finished) + " of " + std::to_string(state.jobs) +
           (state.jobs == 1 ? " problem" : " problems") + " tuned, about " +
           format_seconds(state.seconds_left) + " left";
  }

  TuneOptions options(std::size_t device, std::size_t problem) const {
    TuneOptions options = tasks_[devices_[device].kind].tune;
    options.budget_seconds = problems_[problem].job.seconds;
    options.reproduce = reproduce_prefix(device, problems_[problem].problem);
    return options;
  }

  std::string reproduce_prefix(std::size_t device, const Problem& problem) const {
    return "autotune tune --device " + device_name(gpus_[device]) + " " + problem_options(problem) +
           (bench_.warm ? " --warm" : "");
  }

  void finish(std::size_t problem, TuneResult result, const std::vector<std::size_t>& devices) {
    Tuned tuned = summarize(gpus_[devices.front()], problems_[problem].problem, std::move(result),
                            before_[problem], database_);
    for (const std::size_t device : devices)
      tuned.measured_on.push_back(device_name(gpus_[device]));
    tuned_[problem] = std::move(tuned);
  }

  ListContext context(DevicesProgress& progress) {
    ListContext context{database_, cache_, &interrupted()};
    context.compiler = [this](std::size_t kind) { return tasks_[kind].compiler.get(); };
    context.options = [this](std::size_t device, std::size_t problem) {
      return options(device, problem);
    };
    context.finished = [this, &progress](std::size_t problem, TuneResult result,
                                         const std::vector<std::size_t>& devices) {
      finish(problem, std::move(result), devices);
      progress.show(devices.front(), {});
    };
    context.progress = [this, &progress](std::size_t device, const TuneProgress& now) {
      if (now.last && output_.verbose)
        progress.say(device, record_line(*now.last, reproduce_prefix(device, *now.problem)));
      progress.show(device, progress_line(now));
    };
    context.serves = [this, &progress](std::size_t device, std::optional<std::size_t> problem) {
      progress.show(device, problem ? ProgressLine{{"measures candidates of " +
                                                    table_text(problems_[*problem].problem)}}
                                    : ProgressLine{});
    };
    context.failed = [this, &progress](std::size_t device, const Error& error, bool lost) {
      fail(device, error, lost, progress);
    };
    return context;
  }

  void fail(std::size_t device, const Error& error, bool lost, DevicesProgress& progress) {
    const Gpu& gpu = gpus_[device];
    progress.show(device, {});
    progress.warn(
        "device " + device_name(gpu) + " (" + gpu.info.name + ") " +
        (lost ? "is not used any more, and others do its work: " : "failed and is opened anew: ") +
        error.what());
    if (!lost) return;
    const std::lock_guard lock(mutex_);
    lost_.push_back({gpu, error.what()});
  }

  const std::vector<Task>& tasks_;
  Database& database_;
  ImageCache* cache_;
  const BenchOptions& bench_;
  const Output& output_;
  std::vector<Gpu> gpus_;  ///< of devices_
  std::vector<ListDevice> devices_;
  std::vector<ListProblem> problems_;
  std::vector<std::optional<Winner>> before_;  ///< of problems_: the stored winner
  std::vector<std::optional<Tuned>> tuned_;    ///< of problems_
  std::mutex mutex_;                           // guards lost_
  std::vector<LostGpu> lost_;
};

}  // namespace

TasksResult tune_tasks(const std::vector<Task>& tasks, Database& database, ImageCache* cache,
                       const BenchOptions& bench, const Output& output) {
  return TasksRun(tasks, database, cache, bench, output).run();
}

}  // namespace tilewise::cli
