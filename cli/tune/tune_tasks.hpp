#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cli/common/bench.hpp"
#include "cli/common/tune_report.hpp"
#include "db/image_cache.hpp"
#include "tuner/tuner.hpp"

namespace tilewise::cli {

/// Identical devices and their problems. --accuracy chooses the problems' mode per kind of device.
struct Task {
  std::vector<Gpu> gpus;
  std::vector<Problem> problems;
  std::vector<double> budgets;  ///< seconds of each problem's search
  TuneOptions tune;
  std::shared_ptr<const Compiler> compiler;  ///< may be null
};

struct TasksResult {
  std::vector<Tuned> results;    ///< in the order of the tasks and their problems
  std::optional<Error> failure;  ///< ended the work early; earlier results are kept
  std::vector<LostGpu> lost;
};
/// Tunes the problems of all tasks, on all devices at once, and shows the progress.
TasksResult tune_tasks(const std::vector<Task>& tasks, Database& database, ImageCache* cache,
                       const BenchOptions& bench, const Output& output);

}  // namespace tilewise::cli
