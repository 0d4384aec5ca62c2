#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tuner/evaluation_queue.hpp"

namespace tilewise {

/// Work for any device of a kind.
struct QueuedJob {
  std::size_t kind = 0;
  double seconds = 0;     ///< expected
  double order = 0;       ///< among jobs of equal `seconds`: the largest begins first
  double host_bytes = 0;  ///< needed until its end
};

/// Assigns jobs to devices. Devices of a kind share the jobs of the kind, longest first; a single
/// device keeps the order of the list. A device without a job gets the EvaluationQueue of a search
/// of its kind. A failed job is given to another device of its kind. Jobs begin while their memory
/// together is within `host_bytes`; one job may always run. Thread-safe.
class JobQueue {
 public:
  JobQueue(std::vector<QueuedJob> jobs, std::vector<std::size_t> kind_of_device,
           double host_bytes = std::numeric_limits<double>::infinity());

  struct Turn {
    std::optional<std::size_t> job;                ///< an index
    std::shared_ptr<EvaluationQueue> search = {};  ///< a search to serve, if there is no job
    std::size_t of = 0;                            ///< the job of `search`
  };
  /// Waits for a job or a search. Returns neither when the jobs of the device's kind have ended,
  /// stop() was called, or `stop` is set.
  Turn next(std::size_t device, const std::atomic<bool>* stop = nullptr);
  /// Lets further devices serve a search, until the queue is closed.
  void share(std::size_t job, std::shared_ptr<EvaluationQueue> search);
  void finished(std::size_t job);
  /// Call when a job failed on a device. True: another try follows, if possible on another device.
  /// False after as many tries as the kind has devices.
  bool try_again(std::size_t device, std::size_t job);
  /// The device takes no further jobs. Returns whether its kind has another device; if not, the
  /// jobs of the kind have ended.
  bool lost(std::size_t device);
  /// Whether several devices of this device's kind take part.
  bool has_alike(std::size_t device) const;
  /// No further job begins.
  void stop();

  /// The largest number of searches that run at once.
  std::size_t most_at_once() const;
  struct State {
    std::size_t finished = 0, jobs = 0;
    double seconds_left = 0;  ///< if every job takes its expected time
  };
  State state() const;

 private:
  enum class Stage { waits, runs, ended };
  struct Progress {
    Stage stage = Stage::waits;
    std::chrono::steady_clock::time_point started = {};
    std::shared_ptr<EvaluationQueue> search = {};
    int serving = 0;                  ///< devices that serve `search`
    std::vector<std::size_t> failed;  ///< devices on which the job failed
  };
  std::optional<std::size_t> choose_job(std::size_t device) const;
  bool left_to_others(std::size_t job, std::size_t device) const;
  std::optional<std::size_t> choose_search(std::size_t kind) const;
  bool ended(std::size_t kind) const;
  std::size_t working(std::size_t kind) const;
  std::size_t kinds() const;

  const std::vector<QueuedJob> jobs_;
  const std::vector<std::size_t> kind_of_device_;
  const double host_bytes_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Progress> progress_;  ///< of each job
  std::vector<bool> lost_;          ///< of each device
  bool stopped_ = false;
};

}  // namespace tilewise
