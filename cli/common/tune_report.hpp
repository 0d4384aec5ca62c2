#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/output.hpp"
#include "cli/common/progress.hpp"
#include "tilewise/error.hpp"
#include "tuner/certainty.hpp"
#include "tuner/tuner.hpp"

namespace tilewise::cli {

/// A GPU that failed while others continued, and the reason.
struct LostGpu {
  Gpu gpu;
  std::string why;
};

/// The result of tuning one problem on one GPU or on identical ones.
struct Tuned {
  Gpu gpu;  ///< the GPU of the race
  Problem problem;
  TuneResult result;
  std::vector<Baseline> baselines;  ///< of this run, else the stored ones
  std::string stored;  ///< "new", "replaced", "kept": the winner relative to the stored one;
                       ///< "not stored": the database failed; "none": no winner
  std::vector<Record> fastest;               ///< at most five, fastest first
  std::optional<Certainty> certainty;        ///< of the winner
  std::map<Outcome, std::int64_t> outcomes;  ///< of all stored records of the problem
  std::vector<std::string> measured_on;  ///< device_name() of each GPU that took part, `gpu` first
};
/// Whether the database failed: no further problem can be tuned.
bool database_failed(const TuneResult& result);
/// `before`: the winner stored when the run began.
Tuned summarize(const Gpu& gpu, const Problem& problem, TuneResult result,
                const std::optional<Winner>& before, const Database& database);

/// The progress of a run: phase, time left, counts, the best so far.
ProgressLine progress_line(const TuneProgress& progress);
/// A committed record in one line, for -v; a rejected one with the command that reproduces it.
std::string record_line(const Record& record, const std::string& reproduce);

/// The gain of an application with recorded products, from the times of this run.
struct Gain {
  double calls = 0;        ///< of the problems below
  double recorded_ms = 0;  ///< time of these calls as recorded
  double cublas_ms = 0;    ///< time with cuBLAS, measured in the same run
  double ours_ms = 0;      ///< time with the faster of both
  std::size_t faster = 0, problems = 0;
};
/// Sums over problems with calls, a winner and a cuBLAS time. Empty without such a problem.
std::optional<Gain> gain_of(const std::vector<Tuned>& results,
                            const std::vector<WeightedProblem>& recorded);

/// "2 problems in 18 s: 54 candidates evaluated, 2 new winners stored; 1.20x the speed of cuBLAS".
std::string summary_of(const std::vector<Tuned>& results, double seconds);
void print_tuned(const std::vector<Tuned>& results, const Output& output);
void print_gain(const Gain& gain);
/// {"devices":[...],"left_out":[],"lost":[...],"results":[...]} with "interrupted", and "error"
/// when `failure` is given.
Json tuned_json(const std::vector<Tuned>& results, const std::vector<LostGpu>& lost,
                bool interrupted, const std::optional<Error>& failure,
                const std::optional<Gain>& gain = {});

}  // namespace tilewise::cli
