#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/other_size.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// A compiled candidate as plain values, which can be sent to another process.
struct EvaluationRequest {
  Plan plan;
  std::vector<Image> images;  ///< one per step
  double best_us = 0;  ///< the best so far, 0 = none; a much slower candidate is timed briefly
  /// Above 0: after validation the candidate is pressed (below), then runs alone for this time,
  /// every launch compared (Validator::observe()).
  double observe_seconds = 0;
  bool timed = true;                    ///< false: only validated and observed
  bool energy = false;                  ///< a race also measures energy per product
  std::optional<OtherSize> press = {};  ///< size of kPressedLaunches launches at the start
};

struct Evaluation {
  Outcome outcome = Outcome::launch_error;
  std::string detail;
  /// The outcome is a fault of the system, not of the candidate: the worker was killed from
  /// outside, or memory or disk space ran out. A second try may have another outcome.
  bool transient = false;
  std::optional<Measurement> measurement;
  double error_ratio = 0;                  ///< finite: 1e30 stands for infinitely wrong
  double normwise_error = 0;               ///< finite: 1e30 stands for infinitely wrong
  ResourceUsage usage;                     ///< of the multiply step, as loaded
  std::int64_t observed = 0, pressed = 0;  ///< compared launches of either kind
};

/// The finalists' second measurement, interleaved over several rounds in one process together with
/// another library. EvaluationRequest::energy also measures that library's energy.
struct RaceResult {
  std::vector<Evaluation> finalists;  ///< in the order of the requests
  std::vector<Baseline> baselines;    ///< with problem, library, version, variant and measurement
};

/// On the CPU: memory of one compiler, and memory reserved for a compiler, this program and its
/// worker in addition to a candidate's operands.
inline constexpr std::int64_t kCompilerBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kBesideCandidatesBytes = kCompilerBytes + (std::int64_t{32} << 20);

/// The shortest time that a candidate runs alone before it is stored as a winner.
inline constexpr double kObserveSeconds = 0.25;

/// Timing rules; defaults are those of docs/measuring.md.
struct TimingOptions {
  bool cold = true;
  double max_seconds = 0.25;  ///< per candidate, without warm-up
  int min_samples = 5, max_samples = 100;
  double target_spread = 0.003;  ///< relative standard error of the median at which sampling stops
  int race_rounds = 7;
};

/// Whether an error is independent of the candidate.
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
  /// Whether a race can measure energy: the device has an energy counter or power readings.
  virtual bool measures_energy() { return false; }
  /// Sets the problem: uploads the operands. Throws Error(out_of_memory) with numbers,
  /// Error(invalid_argument) for an empty C.
  virtual void begin(const Problem& problem, std::shared_ptr<const Reference> reference) = 0;
  /// Validates (both data sets, both scalars, canaries, untouched inputs), observes if requested,
  /// then times.
  virtual Evaluation evaluate(const EvaluationRequest& request) = 0;
  /// Validates each finalist once more and times those that pass, alternately; compares their
  /// results after each round. When one breaks the device or hangs, the worker's evaluator
  /// evaluates each alone to find it, and races the rest again. The local evaluator, or a search
  /// that finds no culprit, gives this outcome to all finalists without one.
  virtual RaceResult race(const std::vector<EvaluationRequest>& finalists, bool with_baselines) = 0;
};

/// Evaluates in this process, on a device that must outlive the evaluator. After a sticky device
/// error evaluate() reports launch_error for the culprit, and every later call throws. Each of
/// `baselines` that supports the problem takes part in races with baselines; they must outlive the
/// evaluator.
std::unique_ptr<Evaluator> make_local_evaluator(Device& device,
                                                std::vector<BaselineLibrary*> baselines,
                                                const TimingOptions& timing = {});

}  // namespace tilewise
