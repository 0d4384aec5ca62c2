#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tuner/evaluate/evaluator_local.hpp"
#include "tuner/evaluate/trial.hpp"

/// The rungs of `autotune ladder`: from a plain loop to the tuned winner (docs/ladder.md).
namespace tilewise {

/// One rung and its result.
struct Rung {
  std::string name;                    ///< "tiled, coalesced"
  std::string what;                    ///< its change from the rung before
  std::string arithmetic = "f32";      ///< "f64" (the CPU's), "f32", or the mode: "tf32", "f32x3"
  std::optional<Candidate> candidate;  ///< none: the CPU, or another library
  std::optional<Measurement> measurement;
  Outcome outcome = Outcome::ok;
  std::string detail;                    ///< why there is no time; otherwise a remark
  std::optional<double> error_ratio;     ///< largest error over its bound; none: not compared
  std::optional<double> normwise_error;  ///< ||got - exact|| / ||exact||; none: not compared
  double bytes_per_flop = 0;             ///< of counted global-memory loads; 0: not known
};

/// A rung that is a configuration of one of our templates: its defaults with a few changes.
struct KernelRung {
  const char* name;
  const char* what;
  const char* kernel_template;
  std::vector<std::pair<const char*, int>> changed;
};
/// The rungs from the naive kernel to the prefetching one, in order of the ideas.
const std::vector<KernelRung>& kernel_rungs();

/// The rung's candidate for a problem on a device: unchanged parameters have their defaults.
Candidate candidate_of(const KernelRung& rung, const Problem& problem, const DeviceInfo& info);

/// The product on the CPU in f64, on all cores. If it would take more than ten seconds, only some
/// rows of C are computed, the time is scaled, and the result is not compared with the reference.
Rung measure_cpu(const Problem& problem, const Reference& reference);

/// Compiles, validates and times a candidate. Failures are in the rung's outcome and detail.
Rung measure_candidate(Rung rung, const Problem& problem, const DeviceInfo& info,
                       const ImageStore& images, LocalEvaluator& evaluator);

/// Validates and times another library. `evaluator` has begun with `problem`.
Rung measure_library(const Problem& problem, BaselineLibrary& library, LocalEvaluator& evaluator);

}  // namespace tilewise
