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
  double search_seconds = 0;  ///< of a point; 0: 1/150 of the budget, from 2 to 10 s
  std::uint64_t seed = 1;
  /// That serve the points of one layout, as far as other candidates were measured at each point.
  std::size_t most_configurations = 32;
  double most_flops = 2e12;     ///< of a point; larger sizes are served by prediction
  double most_bytes = 1 << 30;  ///< of A, B and C of a point
  int compile_threads = 0;      ///< 0 = all cores
  std::vector<const KernelTemplate*> templates;  ///< empty = all
  /// Prefix of the command that reproduces a candidate, before the problem; see TuneOptions.
  std::string reproduce;
};

/// Opens a device. Called in the thread in which the evaluator is used and destroyed.
using OpenEvaluator = std::function<std::shared_ptr<Evaluator>()>;

struct CoverPoint {
  Problem problem;
  /// The candidate that would have been served, had the point not been measured, and its time, in
  /// us. None where nothing could be predicted, or the candidate was not measured.
  std::optional<Candidate> served;
  double served_us = 0;
  double best_us = 0;    ///< of the winner; 0: no valid candidate
  double cublas_us = 0;  ///< the fastest baseline of this run; 0 without one
  /// Whether the point is one of the last: its loss is that of a size that was not tuned.
  bool check = false;

  bool has_loss() const { return served_us > 0 && best_us > 0; }
  /// Time of what would have been served over the best, less 1; 0 or more.
  double loss() const { return has_loss() && served_us > best_us ? served_us / best_us - 1 : 0; }
};

/// What serves one layout.
struct CoverLayout {
  Layout layout = Layout::nn;
  std::size_t points = 0;
  std::size_t configurations = 0;
  std::size_t added = 0;  ///< of the configurations: for sizes between the points
  std::size_t images = 0;
  /// By the limit of configurations: what serves the points, over the best measured there, in the
  /// geometric mean, less 1.
  double limit_loss = 0;
};

struct CoverResult {
  std::vector<CoverPoint> points;
  std::vector<CoverLayout> layouts;
  std::size_t tuned_before = 0;  ///< sizes that had a winner: they are left as they are
  std::size_t left_out = 0;      ///< sizes for which memory did not suffice
  double seconds = 0;
  bool interrupted = false;
  bool exhausted = false;  ///< the range has no other point
  std::optional<Error> failure;
};

/// For display: the points so far, and what tune() reports of a current one.
struct CoverProgress {
  std::size_t points = 0;
  std::size_t devices = 1;  ///< that take points
  bool check = false;
  double seconds = 0, budget_seconds = 0;
  const TuneProgress* point = nullptr;
};

/// Measures a range so that every size in it is served near its best. Points of the range are taken
/// from RangePoints until the budget ends: in order, or of those ahead the one at which
/// expected_loss() is greatest. At each, the configurations that are expected to be the
/// fastest of those that are stored, and of the portfolio, are measured, then a short search of
/// kernels that serve every size goes on from the best of them. Every measurement is stored as
/// tune() stores it, and each point's winner serves other sizes by prediction. A size that has a
/// winner is left out: a second run goes on with other sizes. At the end, where more than
/// most_configurations serve the points of a layout, those whose loss is least are replaced by
/// others that were measured there. Where there is room, other measured configurations are added as
/// general records: those that are expected to gain most at sizes between the points. Throws as
/// tune() does when nothing was measured. Returns early, with all that was measured, when
/// TuneContext::stop is set, or with the failure of the device or the database.
/// `further`: devices that are alike with the evaluator's take points, too, each in a thread of its
/// own, in which it is opened. They share the compiler threads. A device that fails takes no
/// further part; the result has the first failure. `progress` is called by one thread at a time.
CoverResult cover(const SizeRange& range, const CoverOptions& options, TuneContext& context,
                  const std::function<void(const CoverProgress&)>& progress = {},
                  const std::vector<OpenEvaluator>& further = {});

/// The geometric mean of 1 + loss, less 1, of the points that have one; 0 without any.
double mean_loss(const std::vector<const CoverPoint*>& points);

/// Chooses for each of `times` (candidate index -> us, of one point) one candidate, so that at most
/// `most` different ones are chosen, by repeatedly dropping the candidate whose loss is least. Each
/// point must have a candidate; a point's last one is never dropped. Returns the index chosen for
/// each point.
std::vector<std::size_t> choose_few(
    const std::vector<std::vector<std::pair<std::size_t, double>>>& times, std::size_t most);

}  // namespace tilewise
