#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/size_range.hpp"
#include "tuner/tuner.hpp"

namespace tilewise {

struct CoverOptions {
  double budget_seconds = 600;
  double search_seconds = 0;  ///< per point; 0: 1/150 of the budget, from 2 to 10 s
  std::uint64_t seed = 1;
  /// Most configurations for the points of one layout, if other candidates were measured at each
  /// point.
  std::size_t most_configurations = 32;
  double most_flops = 2e12;     ///< per point; larger sizes are served by prediction
  double most_bytes = 1 << 30;  ///< of A, B and C of a point
  int compile_threads = 0;      ///< 0 = all cores
  std::vector<const KernelTemplate*> templates;  ///< empty = all
  /// Prefix of the command that reproduces a candidate, before the problem; see TuneOptions.
  std::string reproduce;
};

/// Opens a device. Called in the thread that uses and destroys the evaluator.
using OpenEvaluator = std::function<std::shared_ptr<Evaluator>()>;

struct CoverPoint {
  Problem problem;
  /// The candidate that would have served the point without its measurement, and its time in us.
  /// None where nothing could be predicted, or the candidate was not measured.
  std::optional<Candidate> served;
  double served_us = 0;
  double best_us = 0;    ///< of the winner; 0: no valid candidate
  double cublas_us = 0;  ///< the fastest baseline of this run; 0 without one
  /// Whether the point is one of the last: its loss is that of a size without tuning.
  bool check = false;

  bool has_loss() const { return served_us > 0 && best_us > 0; }
  /// Time of `served` over the best time, minus 1; 0 or more.
  double loss() const { return has_loss() && served_us > best_us ? served_us / best_us - 1 : 0; }
};

/// The configurations that serve one layout.
struct CoverLayout {
  Layout layout = Layout::nn;
  std::size_t points = 0;
  std::size_t configurations = 0;
  std::size_t added = 0;  ///< configurations for sizes between the points
  std::size_t images = 0;
  /// Loss caused by the limit of configurations: geometric mean of the serving time over the best
  /// measured time, minus 1.
  double limit_loss = 0;
};

struct CoverResult {
  std::vector<CoverPoint> points;
  std::vector<CoverLayout> layouts;
  std::size_t compared = 0;      ///< points that were compared, not searched
  std::size_t tuned_before = 0;  ///< sizes that were measured before and stay unchanged
  std::size_t left_out = 0;      ///< sizes that memory did not suffice for
  double seconds = 0;
  bool interrupted = false;
  bool exhausted = false;  ///< the range has no other point
  std::optional<Error> failure;
};

/// For display: the points so far, and tune()'s report on a current one.
struct CoverProgress {
  std::size_t points = 0;
  std::size_t devices = 1;  ///< devices that take points
  bool check = false;
  double seconds = 0, budget_seconds = 0;
  const TuneProgress* point = nullptr;
};

/// Measures a range so that every size in it is served near its best. Points come from RangePoints
/// until the budget ends: in order, or among the points ahead the one with the greatest
/// expected_loss(). After the first points one of five is searched: the stored and portfolio
/// configurations that are expected to be fastest are measured, and a short search of kernels that
/// serve every size continues from the best of them. The others are compared: these configurations
/// are measured, for the corrections, and there is no winner. Where the range has no other point,
/// compared ones are searched. Every measurement is stored as in tune(), and each winner serves
/// other sizes by prediction. A size that was measured before is skipped: a second run continues
/// with other sizes. But points whose fastest kernel has changed since are measured again first.
/// At the end, where more than most_configurations serve the points of a layout, those with the
/// least loss are replaced by others measured there. Where there is room, other measured
/// configurations are added as general records: those with the largest expected gain at sizes
/// between the points. Throws like tune() when nothing was measured. Returns early, with all
/// measurements, when TuneContext::stop is set, or with the failure of the device or the database.
/// `further`: further devices, identical to the evaluator's, take points, too. Each is opened and
/// used in its own thread. All share the compiler threads. A device that fails takes no further
/// points; the result has the first failure. `progress` is called by one thread at a time.
CoverResult cover(const SizeRange& range, const CoverOptions& options, TuneContext& context,
                  const std::function<void(const CoverProgress&)>& progress = {},
                  const std::vector<OpenEvaluator>& further = {});

/// The geometric mean of 1 + loss over points with a loss, minus 1; 0 without such a point.
double mean_loss(const std::vector<const CoverPoint*>& points);

/// Chooses one candidate for each of `times` (candidate index -> us, of one point), at most `most`
/// different ones, by repeatedly dropping the candidate with the least loss. Each point must have a
/// candidate; its last one is never dropped. Returns the chosen index of each point.
std::vector<std::size_t> choose_few(
    const std::vector<std::vector<std::pair<std::size_t, double>>>& times, std::size_t most);

}  // namespace tilewise
