#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tuner/job_queue.hpp"
#include "tuner/tuner.hpp"

namespace tilewise {

/// A device of tune_list(). Devices of a kind are identical: they have the same gpu_key().
struct ListDevice {
  std::size_t kind = 0;
  /// Called in the thread that uses and destroys the evaluator.
  std::function<std::shared_ptr<Evaluator>()> open;
};

/// A problem for the devices of a kind.
struct ListProblem {
  Problem problem;
  QueuedJob job;
};

/// Resources and callbacks of tune_list(). The functions are called in the devices' threads, some
/// at the same time.
struct ListContext {
  Database& database;
  ImageCache* cache = nullptr;
  const std::atomic<bool>* stop = nullptr;
  std::function<const Compiler*(std::size_t kind)> compiler = {};
  std::function<TuneOptions(std::size_t device, std::size_t problem)> options = {};
  /// Called after a search. `devices`: where its candidates were measured, the device of its race
  /// first.
  std::function<void(std::size_t problem, TuneResult result, std::vector<std::size_t> devices)>
      finished = {};
  // These may be empty.
  std::function<void(std::size_t device, const TuneProgress&)> progress = {};
  /// The device begins to evaluate candidates of another device's search, or ends it (no problem).
  std::function<void(std::size_t device, std::optional<std::size_t> problem)> serves = {};
  /// The device failed and is opened again. `lost`: it takes no further part.
  std::function<void(std::size_t device, const Error&, bool lost)> failed = {};
};

/// Tunes every problem once. Each device works in a thread of its own. Identical devices share the
/// problems; where no problem waits, they share the candidates of a search. The running searches
/// share TuneOptions::compile_threads (0 = all cores). Another device of the kind repeats work that
/// fails on a device. Returns the first error that left problems without a result, if any. An error
/// that every device would meet ends the work.
std::optional<Error> tune_list(const std::vector<ListProblem>& problems,
                               const std::vector<ListDevice>& devices, JobQueue& queue,
                               const ListContext& context);

}  // namespace tilewise
