#include "tuner/cover.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "matmul/kept_orders.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"
#include "tuner/cover_table.hpp"
#include "tuner/expected_loss.hpp"
#include "tuner/points_ahead.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

// Points after this share of the budget are checks.
constexpr double kChecksFrom = 0.8;
// After this many points, the expected loss chooses points.
constexpr std::size_t kFirstPoints = 16;
// A point's search begins with this many stored and portfolio configurations.
constexpr std::size_t kStored = 8, kOfPortfolio = 8;
// One of so many points is searched. The others are compared: the stored and the portfolio
// configurations that are expected to be fastest are measured, for the corrections. A search takes
// several times as long, and its candidates are those of one size.
constexpr std::size_t kSearchedOf = 5;
constexpr std::size_t kCompared = 16;      // stored ones, and as many of the portfolios
constexpr std::size_t kLeastCompared = 2;  // with fewer a point is searched
// The most configurations of a stored point that are measured again after their kernels changed.
constexpr std::size_t kAgain = 16;
// Two finalists per point, since larger races would take the time of other points.
constexpr int kPointFinalists = 2;
// The corrections are fitted again when the number of measurements has grown by this factor.
constexpr double kGrowth = 1.25;
// Reserved for the end: the last fit and the choice of additions.
constexpr double kEndSeconds = 6, kEndShare = 0.02;

double time_at(const std::vector<Record>& records, const Candidate& candidate) {
  double us = 0;
  for (const Record& record : records)
    if (record.candidate == candidate && record.outcome == Outcome::ok && record.measurement &&
        (us == 0 || record.measurement->median_us < us))
      us = record.measurement->median_us;
  return us;
}

/// One run of cover().
class Covering {
 public:
  Covering(const SizeRange& range, const CoverOptions& options, TuneContext& context,
           const std::function<void(const CoverProgress&)>& progress,
           const std::vector<OpenEvaluator>& further)
      : range_(range),
        options_(options),
        context_(context),
        progress_(progress),
        started_(context.now()),
        device_(context.evaluator.device_info()),
        gpu_(gpu_key(device_)),
        table_(range, options, context_, device_),
        shipped_(portfolios_of_capability(device_)),
        further_(further),
        working_(1 + further.size()),
        points_(range, options.seed, options.most_flops, options.most_bytes) {}

  CoverResult run() {
    check_templates();
    recall_points();
    measure_points();
    if (unexpected_) std::rethrow_exception(unexpected_);
    if (nothing_measured() && thrown_) throw *thrown_;
    if (working_ > 0) try {
        result_.layouts = table_.reduce(result_.points);
        if (!result_.points.empty() && !stopped())
          table_.add_for_other_sizes(result_.points, result_.layouts);
      } catch (const Error& error) {
        if (nothing_measured()) throw;
        if (!result_.failure) result_.failure = error;
      }
    if (nothing_measured() && result_.exhausted && result_.tuned_before == 0)
      throw Error(ErrorKind::invalid_argument,
                  "the range has no size that can be measured: each has more work or memory than a "
                  "point may have");
    result_.interrupted = stopped();
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  struct Taken {
    CoverPoint point;
    TuneOptions options;
  };

  void measure_points() {
    std::vector<std::jthread> threads;
    for (const OpenEvaluator& open : further_)
      threads.emplace_back([this, &open] {
        on_device([&] {
          const std::shared_ptr<Evaluator> evaluator = open();
          TuneContext context{context_.database, context_.cache, context_.compiler, *evaluator, {},
                              context_.stop,     nullptr,        context_.clock};
          return take_points(context);
        });
      });
    on_device([this] { return take_points(context_); });
  }

  /// `work` returns the error that ended it early, if any.
  template <class Work>
  void on_device(Work work) {
    std::optional<Error> failure;
    bool thrown = true;
    try {
      failure = work();
      thrown = false;
    } catch (const Error& error) {
      failure = error;
    } catch (...) {  // no device fault: all work ends
      const std::lock_guard lock(mutex_);
      if (!unexpected_) unexpected_ = std::current_exception();
      return;
    }
    if (!failure) return;
    const std::lock_guard lock(mutex_);
    --working_;
    if (!result_.failure) result_.failure = failure;
    if (thrown && !thrown_) thrown_ = failure;
  }

  std::optional<Error> take_points(TuneContext& context) {
    while (const std::optional<Problem> stored = next_stored())
      if (std::vector<Candidate> changed = changed_at(*stored); !changed.empty())
        if (std::optional<Error> failure = tune_point(again(*stored, std::move(changed)), context))
          return failure;
    for (;;) {
      std::optional<Taken> taken;
      {
        const std::lock_guard lock(mutex_);
        taken = next_taken();
      }
      if (!taken) return std::nullopt;
      if (std::optional<Error> failure = tune_point(*std::move(taken), context)) return failure;
    }
  }

  /// A point of an earlier run that this run has not looked at, while there is time.
  std::optional<Problem> next_stored() {
    const std::lock_guard lock(mutex_);
    if (unseen_.empty() || !goes_on()) return std::nullopt;
    const Problem problem = unseen_.back();
    unseen_.pop_back();
    return problem;
  }

  /// The configurations of a stored point to measure again. Compiles, without the lock.
  std::vector<Candidate> changed_at(const Problem& problem) {
    if (!context_.compiler) return {};
    const SearchSpace space(problem, device_, templates(), general_kernels());
    std::vector<Candidate> changed = table_.changed(space, kAgain);
    if (changed.empty()) return {};
    TuneProgress now;
    now.problem = &problem;
    now.phase = "machine code";
    show(now, false);
    if (table_.keeps_times(space, changed.front(), compile_threads()) || stopped()) return {};
    return changed;
  }

  std::optional<Taken> next_taken() {
    while (goes_on() || (taken_ == 0 && !stopped())) {
      const bool compares = compares_next();
      if (const std::optional<Problem> problem = next_point(compares)) {
        if (!is_tuned(*problem) && !is_compared(*problem)) return take(*problem, compares);
        if (!measured_again_.contains(*problem)) ++result_.tuned_before;
        continue;
      }
      result_.exhausted = compared_.empty();
      if (result_.exhausted) break;
      const Problem last = compared_.back();  // what was compared is searched at last
      compared_.pop_back();
      Taken taken = take(last, false);
      taken.point.check = false;
      return taken;
    }
    return std::nullopt;
  }

  double seconds() const { return context_.now() - started_; }
  bool stopped() const { return context_.stop && context_.stop->load(); }
  bool goes_on() const {
    return !stopped() && !unexpected_ &&
           seconds() <
               options_.budget_seconds - std::min(kEndSeconds, kEndShare * options_.budget_seconds);
  }
  double search_seconds() const {
    const double wanted = options_.search_seconds > 0
                              ? options_.search_seconds
                              : std::clamp(options_.budget_seconds / 150, 2.0, 10.0);
    // The last search has the rest of the budget, but at least a second.
    return std::min(wanted, std::max(1.0, options_.budget_seconds - seconds()));
  }

  std::optional<Problem> next_of_range() {
    std::optional<Problem> problem = points_.next();
    if (problem) *problem = in_kept_order(*problem, device_, &context_.database);
    return problem;
  }

  bool is_check_time() const { return seconds() >= kChecksFrom * options_.budget_seconds; }
  bool nothing_measured() const { return result_.points.empty() && result_.compared == 0; }

  /// Never without a cost model, which comparisons are for, and without a compiler.
  bool compares_next() const {
    return !is_check_time() && stored_before_ + taken_ >= kFirstPoints &&
           taken_ % kSearchedOf != 0 && context_.compiler && can_estimate(device_);
  }
  /// The first points, the checks and those to compare follow the range's order. The others are the
  /// points ahead at which a search has the largest expected gain.
  std::optional<Problem> next_point(bool compares) {
    if (is_check_time() || stored_before_ + taken_ < kFirstPoints || compares) {
      if (std::optional<Problem> in_order = next_of_range()) return in_order;
    } else if (const auto corrections = load_corrections(context_.database, range_.kind, device_)) {
      const Resolver stored = what_is_stored();
      ahead_.fill([this] { return next_of_range(); }, corrections->samples(),
                  [&](const Problem& problem) {
                    return expected_loss(problem, stored, *corrections, device_, templates(),
                                         general_kernels());
                  },
                  options_.compile_threads);
    }
    std::optional<Problem> point = ahead_.take();
    return point ? point : next_of_range();
  }

  void check_templates() const {
    if (templates().empty())
      throw Error(ErrorKind::invalid_argument,
                  "the kernels of these templates serve one size each; covering a range takes "
                  "templates whose kernels serve every size");
  }

  /// Reads the points of earlier runs.
  void recall_points() {
    for (const Database::StoredProblem& stored : context_.database.problems(gpu_))
      if (range_.contains(stored.problem)) {
        ++stored_before_;
        unseen_.push_back(stored.problem);
        if (is_compared(stored.problem)) compared_.push_back(stored.problem);
      }
    // So that a run that ends early has measured points of all sizes again.
    std::shuffle(unseen_.begin(), unseen_.end(), std::mt19937_64(options_.seed));
  }

  /// Whether configurations were compared at a point, and none was searched for.
  bool is_compared(const Problem& problem) const {
    return !context_.database.winner(problem, gpu_) &&
           context_.database.searches(problem, gpu_).empty() &&
           context_.database.count({.problem = problem, .gpu = gpu_, .outcome = Outcome::ok}) > 0;
  }

  /// Whether an earlier search has a winner for the problem, which stays.
  bool is_tuned(const Problem& problem) const {
    const auto winner = context_.database.winner(problem, gpu_);
    return winner && winner->quarantined.empty() && winner->record.origin == Origin::measured;
  }

  /// Measures the configurations of a stored point again.
  Taken again(const Problem& problem, std::vector<Candidate> candidates) {
    const std::lock_guard lock(mutex_);
    measured_again_.insert(problem);
    Taken taken = new_point(problem);
    taken.options.only = std::move(candidates);
    taken.options.compare = is_compared(problem);
    return taken;
  }

  /// The candidates that are expected to be fastest for the problem, fastest first.
  static std::vector<Candidate> expected(const Resolver& resolver, const Problem& problem,
                                         std::size_t count) {
    std::vector<Candidate> candidates;
    for (Resolver::Expected& one : resolver.expected(problem, count))
      candidates.push_back(std::move(one.candidate));
    return candidates;
  }

  Resolver what_is_stored() const {
    return Resolver(
        context_.database.winners(gpu_), device_, "", context_.database.general(gpu_),
        [this](const Problem& kind) { return load_corrections(context_.database, kind, device_); });
  }

  /// Uses the current corrections: a Resolver reads them once.
  Resolver what_is_shipped() const {
    return Resolver({}, device_, "", shipped_, [this](const Problem& kind) {
      return own_or_shipped_corrections(context_.database, kind, device_);
    });
  }

  /// Those in this run's space, but for the constraints of the search.
  std::vector<Candidate> allowed(std::vector<Candidate> candidates, const Problem& problem) const {
    const SearchSpace space(problem, device_, templates(), general_kernels());
    std::erase_if(candidates, [&](const Candidate& one) { return !space.allows(one); });
    return candidates;
  }

  /// The stored and the portfolios' candidates that are expected to be fastest, each once.
  std::vector<Candidate> known(std::vector<Candidate> stored, const Problem& problem,
                               std::size_t of_portfolio) const {
    for (Candidate& candidate : expected(what_is_shipped(), problem, of_portfolio))
      if (std::count(stored.begin(), stored.end(), candidate) == 0)
        stored.push_back(std::move(candidate));
    return stored;
  }

  /// `compares`: unless there are too few configurations, or an imported winner is to be replaced.
  Taken take(const Problem& problem, bool compares) {
    refresh_corrections(context_.database, problem, device_, kGrowth, Assess::no);
    const Resolver stored = what_is_stored();
    Taken taken = new_point(problem);
    CoverPoint& point = taken.point;
    TuneOptions& tune_options = taken.options;
    point.check = is_check_time();
    if (compares && !context_.database.winner(problem, gpu_))
      tune_options.only =
          allowed(known(expected(stored, problem, kCompared), problem, kCompared), problem);
    tune_options.compare = tune_options.only.size() >= kLeastCompared;
    if (!tune_options.compare) {
      tune_options.only.clear();
      tune_options.first = expected(stored, problem, kStored);
      if (!tune_options.first.empty()) point.served = tune_options.first.front();
      tune_options.first = known(std::move(tune_options.first), problem, kOfPortfolio);
    }
    return taken;
  }

  /// A point with the options of every search.
  Taken new_point(const Problem& problem) {
    Taken taken;
    taken.point.problem = problem;
    TuneOptions& tune_options = taken.options;
    tune_options.brief = true;
    tune_options.budget_seconds = search_seconds();
    tune_options.finalists = kPointFinalists;
    tune_options.compile_threads = compile_threads();
    tune_options.seed = options_.seed + taken_++;
    tune_options.templates = templates();
    tune_options.subspace = general_kernels();
    if (!options_.reproduce.empty())
      tune_options.reproduce = options_.reproduce + " " + problem_options(problem);
    return taken;
  }

  /// Compiler threads of one device's search.
  int compile_threads() const {
    if (further_.empty()) return options_.compile_threads;
    const int devices = static_cast<int>(1 + further_.size());
    return std::max(1, thread_count(options_.compile_threads) / devices);
  }

  void show(const TuneProgress& now, bool check) {
    const std::lock_guard lock(progress_mutex_);
    if (progress_)
      progress_({measured_, 1 + further_.size(), check, seconds(), options_.budget_seconds, &now});
  }

  std::optional<Error> tune_point(Taken taken, TuneContext& device) {
    CoverPoint& point = taken.point;
    TuneContext context = device;
    context.progress = [&](const TuneProgress& now) { show(now, point.check); };
    TuneResult tuned;
    try {
      tuned = tune(point.problem, taken.options, context);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      const std::lock_guard lock(mutex_);
      ++result_.left_out;
      return std::nullopt;
    }
    if (tuned.winner && tuned.winner->record.measurement)
      point.best_us = tuned.winner->record.measurement->median_us;
    point.cublas_us = fastest_us(tuned.baselines);
    if (point.served) point.served_us = time_at(table_.ok_records(point.problem), *point.served);
    const std::lock_guard lock(mutex_);
    if (!taken.options.compare) {
      result_.points.push_back(std::move(point));
    } else if (tuned.evaluated > 0) {
      ++result_.compared;
      if (!measured_again_.contains(point.problem)) compared_.push_back(point.problem);
    }
    measured_ = result_.points.size() + result_.compared;
    return tuned.failure;
  }

  /// Templates whose kernels serve more than one size.
  std::vector<const KernelTemplate*> templates() const {
    std::vector<const KernelTemplate*> templates =
        options_.templates.empty() ? select_templates() : options_.templates;
    std::erase_if(templates, [](const KernelTemplate* kernel) { return kernel->size_specialised; });
    return templates;
  }

  /// Kernels whose sizes are arguments: the parameters that make them constants are 0.
  Subspace general_kernels() const {
    Subspace subspace;
    for (const KernelTemplate* kernel : templates())
      if (!kernel->specialises.empty()) subspace[kernel->specialises] = {0};
    return subspace;
  }

  const SizeRange& range_;
  const CoverOptions& options_;
  TuneContext& context_;
  const std::function<void(const CoverProgress&)>& progress_;
  const double started_;
  const DeviceInfo device_;
  const std::string gpu_;
  CoverTable table_;
  const std::vector<Record> shipped_;  ///< all portfolios of the capability
  const std::vector<OpenEvaluator>& further_;
  std::mutex progress_mutex_;
  std::atomic<std::size_t> measured_{0};
  std::mutex mutex_;     ///< guards all members below while several devices take points
  std::size_t working_;  ///< devices that have not failed
  std::exception_ptr unexpected_;
  std::optional<Error> thrown_;  ///< the first failure that ended a search without a result
  RangePoints points_;
  PointsAhead ahead_;
  std::size_t taken_ = 0;
  std::size_t stored_before_ = 0;  ///< points of earlier runs
  std::vector<Problem> unseen_;    ///< points of earlier runs that this run has not looked at
  std::set<Problem> measured_again_;
  std::vector<Problem> compared_;  ///< points without a winner, those of earlier runs included
  CoverResult result_;
};

using CandidateTimes = std::vector<std::pair<std::size_t, double>>;

double best_of(const CandidateTimes& times, const std::vector<bool>& dropped, std::size_t without,
               std::size_t* chosen = nullptr) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [candidate, us] : times)
    if (!dropped[candidate] && candidate != without && us < best) {
      best = us;
      if (chosen) *chosen = candidate;
    }
  return best;
}

}  // namespace

CoverResult cover(const SizeRange& range, const CoverOptions& options, TuneContext& context,
                  const std::function<void(const CoverProgress&)>& progress,
                  const std::vector<OpenEvaluator>& further) {
  return Covering(range, options, context, progress, further).run();
}

// Few candidates that serve many points -----------------------------------------------------------

double mean_loss(const std::vector<const CoverPoint*>& points) {
  double sum = 0;
  std::size_t count = 0;
  for (const CoverPoint* point : points)
    if (point->has_loss()) {
      sum += std::log1p(point->loss());
      ++count;
    }
  return count == 0 ? 0 : std::expm1(sum / static_cast<double>(count));
}

std::vector<std::size_t> choose_few(const std::vector<CandidateTimes>& times, std::size_t most) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t candidates = 0;
  for (const CandidateTimes& point : times)
    for (const auto& [candidate, us] : point) candidates = std::max(candidates, candidate + 1);
  std::vector<bool> dropped(candidates, false);
  std::vector<std::size_t> choice(times.size(), kNone);
  for (;;) {
    std::set<std::size_t> used;
    for (std::size_t i = 0; i < times.size(); ++i) {
      best_of(times[i], dropped, kNone, &choice[i]);
      used.insert(choice[i]);
    }
    if (used.size() <= std::max<std::size_t>(most, 1)) return choice;
    std::size_t least = kNone;
    double least_loss = std::numeric_limits<double>::infinity();
    for (const std::size_t candidate : used) {
      double loss = 0;
      for (std::size_t i = 0; i < times.size(); ++i)
        if (choice[i] == candidate)
          loss +=
              std::log(best_of(times[i], dropped, candidate) / best_of(times[i], dropped, kNone));
      if (loss < least_loss) {
        least_loss = loss;
        least = candidate;
      }
    }
    if (least == kNone) return choice;  // every candidate is some point's last
    dropped[least] = true;
  }
}

}  // namespace tilewise
