#include "tuner/job_queue.hpp"

#include <algorithm>
#include <utility>

namespace tilewise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{50};  // between checks of the Ctrl-C flag

}  // namespace

JobQueue::JobQueue(std::vector<QueuedJob> jobs, std::vector<std::size_t> kind_of_device,
                   double host_bytes)
    : jobs_(std::move(jobs)),
      kind_of_device_(std::move(kind_of_device)),
      host_bytes_(host_bytes),
      progress_(jobs_.size()),
      lost_(kind_of_device_.size(), false) {}

std::size_t JobQueue::kinds() const {
  std::size_t count = 0;
  for (const std::size_t kind : kind_of_device_) count = std::max(count, kind + 1);
  return count;
}

std::size_t JobQueue::working(std::size_t kind) const {
  std::size_t count = 0;
  for (std::size_t device = 0; device < kind_of_device_.size(); ++device)
    count += kind_of_device_[device] == kind && !lost_[device] ? 1 : 0;
  return count;
}

/// Whether the job failed on this device, and another device has not failed on it.
bool JobQueue::left_to_others(std::size_t job, std::size_t device) const {
  const auto failed_on = [&](std::size_t other) {
    const auto& failed = progress_[job].failed;
    return std::find(failed.begin(), failed.end(), other) != failed.end();
  };
  if (!failed_on(device)) return false;
  for (std::size_t other = 0; other < kind_of_device_.size(); ++other)
    if (kind_of_device_[other] == jobs_[job].kind && !lost_[other] && !failed_on(other))
      return true;
  return false;
}

/// The job to begin now; empty where none waits, or none fits into memory with the running ones.
std::optional<std::size_t> JobQueue::choose_job(std::size_t device) const {
  const std::size_t kind = kind_of_device_[device];
  double used = 0;
  bool any_runs = false;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (progress_[i].stage != Stage::runs) continue;
    used += jobs_[i].host_bytes;
    any_runs = true;
  }
  const bool shared = std::count(kind_of_device_.begin(), kind_of_device_.end(), kind) > 1;
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const QueuedJob& job = jobs_[i];
    if (job.kind != kind || progress_[i].stage != Stage::waits || left_to_others(i, device))
      continue;
    if (any_runs && !(used + job.host_bytes <= host_bytes_)) continue;
    const bool longer = chosen && std::pair(job.seconds, job.order) >
                                      std::pair(jobs_[*chosen].seconds, jobs_[*chosen].order);
    if (!chosen || (shared && longer)) chosen = i;
  }
  return chosen;
}

/// The search that the fewest devices serve.
std::optional<std::size_t> JobQueue::choose_search(std::size_t kind) const {
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Progress& job = progress_[i];
    if (jobs_[i].kind != kind || job.stage != Stage::runs || !job.search || job.search->closed())
      continue;
    if (!chosen || job.serving < progress_[*chosen].serving) chosen = i;
  }
  return chosen;
}

bool JobQueue::ended(std::size_t kind) const {
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    if (jobs_[i].kind == kind && progress_[i].stage != Stage::ended) return false;
  return true;
}

JobQueue::Turn JobQueue::next(std::size_t device, const std::atomic<bool>* stop) {
  const std::size_t kind = kind_of_device_[device];
  std::unique_lock lock(mutex_);
  while (!stopped_ && !(stop && stop->load()) && !ended(kind)) {
    if (const auto job = choose_job(device)) {
      progress_[*job].stage = Stage::runs;
      progress_[*job].started = Clock::now();
      return {job};
    }
    if (const auto search = choose_search(kind)) {
      ++progress_[*search].serving;
      return {std::nullopt, progress_[*search].search, *search};
    }
    changed_.wait_for(lock, kBetweenLooks);
  }
  return {};
}

void JobQueue::share(std::size_t job, std::shared_ptr<EvaluationQueue> search) {
  const std::lock_guard lock(mutex_);
  progress_[job].search = std::move(search);
  progress_[job].serving = 0;
  changed_.notify_all();
}

void JobQueue::finished(std::size_t job) {
  const std::lock_guard lock(mutex_);
  progress_[job].stage = Stage::ended;
  progress_[job].search.reset();
  changed_.notify_all();
}

bool JobQueue::try_again(std::size_t device, std::size_t job) {
  const std::lock_guard lock(mutex_);
  const auto devices = std::count(kind_of_device_.begin(), kind_of_device_.end(), jobs_[job].kind);
  Progress& progress = progress_[job];
  progress.failed.push_back(device);
  if (static_cast<std::ptrdiff_t>(progress.failed.size()) >= devices) return false;
  progress.stage = Stage::waits;
  progress.search.reset();
  changed_.notify_all();
  return true;
}

bool JobQueue::lost(std::size_t device) {
  const std::lock_guard lock(mutex_);
  const std::size_t kind = kind_of_device_[device];
  lost_[device] = true;
  changed_.notify_all();
  if (working(kind) > 0) return true;
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    if (jobs_[i].kind == kind) progress_[i].stage = Stage::ended;
  return false;
}

bool JobQueue::has_alike(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return working(kind_of_device_[device]) > 1;
}

void JobQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::size_t JobQueue::most_at_once() const {
  std::size_t count = 0;
  for (std::size_t kind = 0; kind < kinds(); ++kind) {
    const auto devices = std::count(kind_of_device_.begin(), kind_of_device_.end(), kind);
    const auto jobs = std::count_if(jobs_.begin(), jobs_.end(),
                                    [kind](const QueuedJob& job) { return job.kind == kind; });
    count += static_cast<std::size_t>(std::min(devices, jobs));
  }
  return std::max<std::size_t>(count, 1);
}

JobQueue::State JobQueue::state() const {
  const std::lock_guard lock(mutex_);
  State state;
  state.jobs = jobs_.size();
  std::vector<double> seconds(kinds(), 0);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Progress& job = progress_[i];
    state.finished += job.stage == Stage::ended ? 1 : 0;
    if (job.stage == Stage::ended) continue;
    const double spent = job.stage == Stage::runs
                             ? std::chrono::duration<double>(Clock::now() - job.started).count()
                             : 0;
    seconds[jobs_[i].kind] += std::max(0.0, jobs_[i].seconds - spent);
  }
  for (std::size_t kind = 0; kind < seconds.size(); ++kind)
    if (const std::size_t devices = working(kind); devices > 0)
      state.seconds_left =
          std::max(state.seconds_left, seconds[kind] / static_cast<double>(devices));
  return state;
}

}  // namespace tilewise
