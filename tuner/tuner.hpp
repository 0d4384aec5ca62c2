#pragma once
#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "device/compiler.hpp"
#include "templates/search_space.hpp"
#include "tuner/evaluator.hpp"

namespace tilewise {

struct TuneOptions {
  std::string strategy = "local";
  std::uint64_t seed = 1;
  double budget_seconds = 60;        ///< per problem, compile time counted
  std::int64_t max_evaluations = 0;  ///< 0 = no limit
  int finalists = 6;
  int compile_threads = 0;                       ///< 0 = all cores
  bool force = false;                            ///< measure again what is stored
  std::vector<const KernelTemplate*> templates;  ///< empty = all
  Subspace subspace;
  /// Prefix of the command that reproduces a candidate, see reproduce.hpp; rejected records carry
  /// it.
  std::string reproduce;
};

/// What a person watching sees. All times in seconds.
struct TuneProgress {
  const Problem* problem = nullptr;
  std::string phase;  ///< "reference", "search", "race", "done"
  std::int64_t evaluated = 0, rejected = 0, compiled = 0, reused = 0;
  double seconds = 0, budget_seconds = 0;
  std::optional<Record> best;
  const Record* last = nullptr;  ///< just committed, or null
};

struct TuneResult {
  std::optional<Winner> winner;
  std::vector<Baseline> baselines;
  std::int64_t evaluated = 0, rejected = 0, compiled = 0, reused = 0;
  double seconds = 0;
  bool interrupted = false;
  /// Spearman's rank correlation of the times that the cost model predicted for `ranked` candidates
  /// with those measured; not a number where fewer than three can be compared.
  double rank_correlation = std::numeric_limits<double>::quiet_NaN();
  std::int64_t ranked = 0;
  bool already_done =
      false;  ///< an identical search had finished: nothing was compiled or measured
};

struct TuneContext {
  Database& database;
  Database* cache = nullptr;           ///< images of losers; may be null
  const Compiler* compiler = nullptr;  ///< null: only stored images can be evaluated
  Evaluator& evaluator;
  std::function<void(const TuneProgress&)> progress;
  const std::atomic<bool>* stop =
      nullptr;  ///< set by Ctrl-C: finish the current candidate, keep all
};

/// The loop: problem -> candidates -> images -> evaluations -> records -> race -> winner. Every
/// record is committed as it happens. Throws only for what ends the run (database, device gone, no
/// compiler).
TuneResult tune(const Problem& problem, const TuneOptions& options, TuneContext& context);

}  // namespace tilewise
