#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "tilewise/error.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// A compiled candidate: plain values, so that it can cross to another process.
struct EvaluationRequest {
  Plan plan;
  std::vector<Image> images;  ///< one per step
  double best_us = 0;   ///< the best so far; a candidate far behind is timed briefly. 0 = none
  bool repeat = false;  ///< see Validator::repeat(); finalists of a race always are
};

struct Evaluation {
  Outcome outcome = Outcome::launch_error;
  std::string detail;
  /// The outcome is a fault of the system, not of the candidate: the worker was killed from
  /// outside, say, or memory or disk space ran out. It may be another when it is tried again.
  bool transient = false;
  std::optional<Measurement> measurement;
  double error_ratio = 0;     ///< finite: 1e30 stands for infinitely wrong
  double normwise_error = 0;  ///< finite likewise
  ResourceUsage usage;        ///< of the multiply step, as loaded
};

/// Finalists measured again, interleaved over several rounds in one process, another library
/// beside.
struct RaceResult {
  std::vector<Evaluation> finalists;  ///< in the order given
  std::vector<Baseline> baselines;    ///< problem, library, version, variant, measurement filled in
};

/// Timing rules; defaults are those of docs/measuring.md.
struct TimingOptions {
  bool cold = true;
  double max_seconds = 0.25;  ///< per candidate, warm-up not counted
  int min_samples = 5, max_samples = 100;
  double target_spread = 0.003;  ///< stop when the median is known this well (relative)
  int race_rounds = 7;
};

/// Whether an error says nothing about the candidate that met it.
inline bool is_transient(ErrorKind kind) {
  return kind == ErrorKind::transient || kind == ErrorKind::io || kind == ErrorKind::out_of_memory;
}

/// Validates and times candidates of one problem at a time on one device. Failures are outcomes;
/// only a failure of the evaluator itself throws. Not thread-safe.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual DeviceInfo device_info() = 0;
  virtual std::string driver_version() = 0;
  /// Sets the problem: operands go to the device. Throws Error(out_of_memory) with numbers,
  /// Error(invalid_argument) for an empty C.
  virtual void begin(const Problem& problem, std::shared_ptr<const Reference> reference) = 0;
  /// Validates (both data sets, both scalars, canaries, untouched inputs), then times.
  virtual Evaluation evaluate(const EvaluationRequest& request) = 0;
  /// Validates each once more and times those that pass, alternating. When one of them breaks the
  /// device or hangs, the worker's evaluator looks for it by evaluating each alone, and races the
  /// rest again; in this process, or where none fails alone, all that were not judged yet get its
  /// outcome.
  virtual RaceResult race(const std::vector<EvaluationRequest>& finalists, bool with_baselines) = 0;
};

/// In this process, on a device that the caller keeps alive. A sticky device error ends it:
/// evaluate() reports launch_error for the culprit, and every later call throws.
/// Each of `baselines` takes part in a race that has baselines and that it supports; they must
/// outlive the evaluator.
std::unique_ptr<Evaluator> make_local_evaluator(Device& device,
                                                std::vector<BaselineLibrary*> baselines,
                                                const TimingOptions& timing = {});

}  // namespace tilewise
