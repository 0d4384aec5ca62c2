#pragma once
#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "device/compiler.hpp"
#include "templates/space/search_space.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/evaluation_queue.hpp"

namespace tilewise {

struct TuneOptions {
  std::string strategy = "local";
  std::uint64_t seed = 1;
  double budget_seconds = 60;        ///< per problem, including compile time
  std::int64_t max_evaluations = 0;  ///< 0 = no limit
  /// The search ends when the expected gain of one more candidate is below this share of the best
  /// time and at least 50 are known; 0: not before the budget. For strategies with such an
  /// estimate.
  double least_gain = 0;
  /// The search is by time whatever the objective; the race of the finalists is by it.
  Objective objective = Objective::time;
  int finalists = 6;
  int compile_threads = 0;                       ///< 0 = all cores
  bool force = false;                            ///< measure stored candidates again
  std::vector<const KernelTemplate*> templates;  ///< empty = all
  Subspace subspace;
  /// For a budget of a few seconds: the strategy's start has fewer candidates, so that the
  /// neighbours of the best ones are tried.
  bool brief = false;
  /// Candidates to try before those of the strategy, if they are valid; if empty, the shipped ones
  /// that are expected to be fastest. A search does not end before it has measured them, of shipped
  /// ones and of a brief search the first, unless this takes twice the budget.
  std::vector<Candidate> first;
  /// If not empty: only these candidates, in this order, if they are valid. No search is stored.
  std::vector<Candidate> only;
  /// No race: the measurements are stored, and no winner.
  bool compare = false;
  /// Prefix of the command that reproduces a candidate (reproduce.hpp); added to rejected records.
  std::string reproduce;
};

/// A report for display. Times in seconds.
struct TuneProgress {
  const Problem* problem = nullptr;
  std::string phase;  ///< "machine code", "reference", "search", "race", "confirm", "done"
  std::int64_t evaluated = 0, rejected = 0, compiled = 0, reused = 0;
  double seconds = 0, budget_seconds = 0;
  double lock_seconds = 0;  ///< waits for a lock on a database, which `seconds` does not count
  std::optional<Record> best;
  const Record* last = nullptr;  ///< just committed, or null
};

struct TuneResult {
  std::optional<Winner> winner;
  std::vector<Baseline> baselines;
  std::int64_t evaluated = 0, rejected = 0, compiled = 0, reused = 0;
  double seconds = 0;           ///< without lock_seconds
  double lock_seconds = 0;      ///< waits for a database lock that another process held
  double search_seconds = 0;    ///< without the race
  double evaluate_seconds = 0;  ///< part of search_seconds on this device
  double busy_seconds = 0;      ///< part of search_seconds; device or all compiler threads busy
  bool interrupted = false;
  bool ended_early = false;  ///< see TuneOptions::least_gain; the search is not stored as finished
  /// Spearman's rank correlation of predicted and measured times over `ranked` candidates; NaN for
  /// fewer than three.
  double rank_correlation = std::numeric_limits<double>::quiet_NaN();
  std::int64_t ranked = 0;
  /// An identical search had finished, and its kernels still compile to the same machine code:
  /// nothing was measured.
  bool already_done = false;
  /// The error that ended the search early: a permanent failure of the device, the database or the
  /// system. The winner is the best of the measured candidates. Also set when faults left
  /// candidates without an outcome and no valid candidate was found.
  std::optional<Error> failure;
  /// Whether the winner is in the database. False when the database failed (see `failure`).
  bool stored = true;
  std::int64_t faults = 0;     ///< of the system; their candidates were tried again
  std::int64_t given_up = 0;   ///< candidates that faults left without an outcome and a record
  std::string last_fault;      ///< message
  double compile_seconds = 0;  ///< of the search, summed over threads
  std::int64_t compiles_expected = 0;  ///< compiles whose time was predicted
  /// The median of |predicted / measured - 1| for these compiles; NaN without any.
  double compile_error = std::numeric_limits<double>::quiet_NaN();
  std::int64_t too_late = 0;  ///< candidates that would have compiled beyond the budget
  std::int64_t waited = 0;    ///< candidates that another process was still compiling at the end
  std::vector<Record> wrong;  ///< with a wrong result, in this search or its race
  std::int64_t observed = 0;  ///< compared launches of finalists before they are stored
};

struct TuneContext {
  Database& database;
  ImageCache* cache = nullptr;         ///< images of losers; may be null
  const Compiler* compiler = nullptr;  ///< null: only stored images can be evaluated
  Evaluator& evaluator;
  std::function<void(const TuneProgress&)> progress;
  const std::atomic<bool>* stop =
      nullptr;  ///< set by Ctrl-C: finish the current candidate, keep all
  /// Further devices, identical to the evaluator's, take candidates from it; may be null. Only the
  /// evaluator's device races. Closed at the end of the search.
  EvaluationQueue* shared = nullptr;
  /// Seconds since any fixed moment, which budgets refer to. Called by all threads. Empty: the
  /// steady clock.
  std::function<double()> clock = {};

  double now() const;
};

/// The loop: problem -> candidates -> images -> evaluations -> records -> race -> winner. Every
/// record is committed when it is made. A fault of the system makes no record. The result reports
/// an early end, with the winner of the measured candidates. Throws Error without a compiler, and
/// when the search ends before anything was measured.
TuneResult tune(const Problem& problem, const TuneOptions& options, TuneContext& context);

}  // namespace tilewise
