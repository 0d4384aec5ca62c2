#include "tuner/cover.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "matmul/build.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"
#include "tuner/additions.hpp"
#include "tuner/expected_loss.hpp"
#include "tuner/points_ahead.hpp"
#include "tuner/search/record_time.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

using PointTimes = std::vector<std::pair<std::size_t, double>>;

// Points after this share of the budget are checks.
constexpr double kChecksFrom = 0.8;
// After these, points are chosen by the loss that is expected there.
constexpr std::size_t kFirstPoints = 16;
// The numbers of stored configurations and of the portfolio's that a point's search begins with.
constexpr std::size_t kStored = 8, kOfPortfolio = 4;
// A race of many finalists at each point would take the time of other points.
constexpr int kPointFinalists = 2;
// The corrections are fitted again where there are this many times as many measurements.
constexpr double kGrowth = 1.25;
// Kept for the end: the last fit and the choice of additions.
constexpr double kEndSeconds = 6, kEndShare = 0.02;
// For the additions: other sizes of the range, and the candidates of each point, up to this many
// times as slow as its best.
constexpr int kOtherSizes = 300, kOfPoint = 20;
constexpr double kNearBest = 1.4;

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
           const std::function<void(const CoverProgress&)>& progress)
      : range_(range),
        options_(options),
        context_(context),
        progress_(progress),
        started_(std::chrono::steady_clock::now()),
        device_(context.evaluator.device_info()),
        gpu_(gpu_key(device_)),
        portfolio_({}, device_, "", portfolio_for(device_),
                   [this](const Problem& kind) { return any_corrections(kind); }),
        points_(range, options.seed, options.most_flops, options.most_bytes) {}

  CoverResult run() {
    check_templates();
    try {
      while (goes_on() || (taken_ == 0 && !stopped())) {
        const std::optional<Problem> problem = next_point();
        result_.exhausted = !problem;
        if (!problem) break;
        if (is_tuned(*problem))
          ++result_.tuned_before;
        else
          take(*problem);
      }
      if (!result_.failure) {
        reduce();
        if (!result_.points.empty() && !stopped()) add_for_other_sizes();
      }
    } catch (const Error& error) {
      if (result_.points.empty()) throw;
      result_.failure = error;
    }
    if (result_.points.empty() && result_.exhausted && result_.tuned_before == 0)
      throw Error(ErrorKind::invalid_argument,
                  "the range has no size that can be measured: each has more work or memory than a "
                  "point may have");
    result_.interrupted = stopped();
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  bool stopped() const { return context_.stop && context_.stop->load(); }
  bool goes_on() const {
    return !stopped() && !result_.failure &&
           seconds() <
               options_.budget_seconds - std::min(kEndSeconds, kEndShare * options_.budget_seconds);
  }
  double search_seconds() const {
    const double wanted = options_.search_seconds > 0
                              ? options_.search_seconds
                              : std::clamp(options_.budget_seconds / 150, 2.0, 10.0);
    // The last search has what is left of the budget, but at least a second.
    return std::min(wanted, std::max(1.0, options_.budget_seconds - seconds()));
  }

  bool is_check_time() const { return seconds() >= kChecksFrom * options_.budget_seconds; }
  /// The first points and the checks are those of the range in its order. The others are those of
  /// the points ahead at which a search is expected to gain most.
  std::optional<Problem> next_point() {
    if (is_check_time() || result_.points.size() < kFirstPoints) {
      if (std::optional<Problem> in_order = points_.next()) return in_order;
    } else if (const auto corrections = load_corrections(context_.database, range_.kind, device_)) {
      const Resolver stored = what_is_stored();
      ahead_.fill([this] { return points_.next(); }, corrections->samples(),
                  [&](const Problem& problem) {
                    return expected_loss(problem, stored, *corrections, device_, templates(),
                                         general_kernels());
                  },
                  options_.compile_threads);
    }
    std::optional<Problem> point = ahead_.take();
    return point ? point : points_.next();
  }

  void check_templates() const {
    if (templates().empty())
      throw Error(ErrorKind::invalid_argument,
                  "the kernels of these templates serve one size each; covering a range takes "
                  "templates whose kernels serve every size");
  }

  /// Whether a search of before has a winner for the problem, which stays.
  bool is_tuned(const Problem& problem) const {
    const auto winner = context_.database.winner(problem, gpu_);
    return winner && winner->quarantined.empty() && winner->record.origin == Origin::measured;
  }

  /// Those that are expected to be the fastest for the problem, fastest first.
  static std::vector<Candidate> expected(const Resolver& resolver, const Problem& problem,
                                         std::size_t count) {
    std::vector<Candidate> candidates;
    for (Resolver::Expected& one : resolver.expected(problem, count))
      candidates.push_back(std::move(one.candidate));
    return candidates;
  }

  /// Those of this GPU's measurements, else those that ship.
  std::optional<Corrections> any_corrections(const Problem& kind) const {
    std::optional<Corrections> own = load_corrections(context_.database, kind, device_);
    return own ? std::move(own) : portfolio_corrections(kind, device_);
  }

  Resolver what_is_stored() const {
    return Resolver(
        context_.database.winners(gpu_), device_, "", context_.database.general(gpu_),
        [this](const Problem& kind) { return load_corrections(context_.database, kind, device_); });
  }

  void take(const Problem& problem) {
    ++taken_;
    refresh_corrections(context_.database, problem, device_, kGrowth, Assess::no);
    const Resolver stored = what_is_stored();
    CoverPoint point;
    point.problem = problem;
    point.check = is_check_time();
    TuneOptions tune_options;
    tune_options.first = expected(stored, problem, kStored);
    if (!tune_options.first.empty()) point.served = tune_options.first.front();
    for (Candidate& candidate : expected(portfolio_, problem, kOfPortfolio))
      tune_options.first.push_back(std::move(candidate));
    tune_options.brief = true;
    tune_options.budget_seconds = search_seconds();
    tune_options.finalists = kPointFinalists;
    tune_options.compile_threads = options_.compile_threads;
    tune_options.seed = options_.seed + result_.points.size();
    tune_options.templates = templates();
    tune_options.subspace = general_kernels();
    if (!options_.reproduce.empty())
      tune_options.reproduce = options_.reproduce + " " + problem_options(problem);
    tune_point(std::move(point), tune_options);
  }

  void tune_point(CoverPoint point, const TuneOptions& tune_options) {
    TuneContext context = context_;
    context.progress = [&](const TuneProgress& now) {
      if (progress_)
        progress_({result_.points.size(), point.check, seconds(), options_.budget_seconds, &now});
    };
    TuneResult tuned;
    try {
      tuned = tune(point.problem, tune_options, context);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      ++result_.left_out;
      return;
    }
    result_.failure = tuned.failure;
    if (tuned.winner && tuned.winner->record.measurement)
      point.best_us = tuned.winner->record.measurement->median_us;
    for (const Baseline& baseline : tuned.baselines)
      if (const double us = baseline.measurement.median_us;
          us > 0 && (point.cublas_us == 0 || us < point.cublas_us))
        point.cublas_us = us;
    if (point.served) point.served_us = time_at(ok_records(point.problem), *point.served);
    result_.points.push_back(std::move(point));
  }

  /// Those whose kernels serve more than one size.
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

  /// Measured here, with the kernels that would be built now, which serve every size.
  std::vector<Record> ok_records(const Problem& problem) const {
    const ImageStore store(&context_.database, context_.cache, context_.compiler);
    std::vector<Record> records =
        context_.database.records({.problem = problem, .gpu = gpu_, .outcome = Outcome::ok});
    std::erase_if(records, [&](const Record& record) {
      if (!record.measurement || record.origin != Origin::measured || !is_general(record))
        return true;
      const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
      return !rejection(kernel, problem, record.candidate.configuration, device_).empty() ||
             record.source_hash !=
                 current_source_hash(record.candidate, kernel, problem, device_, store);
    });
    return records;
  }

  void reduce() {
    for (const Layout layout : range_.layouts) reduce(layout);
  }

  /// Serves the points of a layout by at most most_configurations.
  void reduce(Layout layout) {
    std::vector<Candidate> candidates;
    std::vector<std::map<std::size_t, Record>> records;
    std::vector<PointTimes> times;
    std::vector<double> best;
    for (const CoverPoint& point : result_.points) {
      if (point.problem.layout != layout || point.best_us == 0) continue;
      std::map<std::size_t, Record> own;
      PointTimes own_times;
      for (Record& record : ok_records(point.problem)) {
        const auto known = std::find(candidates.begin(), candidates.end(), record.candidate);
        const auto index = static_cast<std::size_t>(known - candidates.begin());
        if (known == candidates.end()) candidates.push_back(record.candidate);
        own_times.emplace_back(index, record.measurement->median_us);
        own[index] = std::move(record);
      }
      if (own_times.empty()) continue;
      best.push_back(point.best_us);
      prefer_winner(point.problem, candidates, own_times);
      times.push_back(std::move(own_times));
      records.push_back(std::move(own));
    }
    if (times.empty()) return;
    std::set<std::size_t> chosen;
    std::set<KernelSpec>& images = images_[layout];
    double logs = 0;
    const std::vector<std::size_t> choice = choose_few(times, options_.most_configurations);
    for (std::size_t i = 0; i < choice.size(); ++i) {
      const Record& record = records[i].at(choice[i]);
      serve(record);
      chosen.insert(choice[i]);
      logs += std::log(std::max(1.0, record.measurement->median_us / best[i]));
      for (const LaunchStep& step : plan_of(record.candidate, record.problem, device_).steps)
        images.insert(step.kernel);
    }
    result_.layouts.push_back({layout, times.size(), chosen.size(), 0, images.size(),
                               std::expm1(logs / static_cast<double>(times.size()))});
  }

  /// The winners are the best at the points. Where the limit of configurations leaves room, those
  /// join them that are expected to gain most at sizes between the points.
  void add_for_other_sizes() {
    const Problem& kind = result_.points.front().problem;
    refresh_corrections(context_.database, kind, device_, 1);
    const auto corrections = load_corrections(context_.database, kind, device_);
    if (!corrections || stopped()) return;
    std::map<Layout, std::size_t> room;
    for (const CoverLayout& layout : result_.layouts)
      room[layout.layout] = options_.most_configurations -
                            std::min(options_.most_configurations, layout.configurations);
    const ImageStore store(&context_.database, context_.cache, context_.compiler);
    for (const Record& record :
         choose_additions(serving(kind), near_the_best(), other_sizes(), std::move(room),
                          *corrections, device_, options_.compile_threads)) {
      if (stopped()) return;
      const Built built = build(record.candidate, find_template(record.candidate.kernel_template),
                                record.problem, device_, store);
      if (built.missing || built.fault || !built.refusal.empty()) continue;
      for (const Image& image : built.images) context_.database.put_image(image, record.id);
      context_.database.set_general(record.id);
      for (CoverLayout& layout : result_.layouts)
        if (layout.layout == record.problem.layout) {
          for (const LaunchStep& step : built.plan.steps)
            images_[layout.layout].insert(step.kernel);
          ++layout.configurations;
          ++layout.added;
          layout.images = images_[layout.layout].size();
        }
    }
  }

  /// The candidates that serve the kind of products now.
  std::vector<Candidate> serving(const Problem& kind) const {
    std::vector<Candidate> candidates;
    for (Winner& winner : context_.database.winners(gpu_))
      if (same_types(winner.record.problem, kind) && winner.quarantined.empty() &&
          is_general(winner.record))
        candidates.push_back(std::move(winner.record.candidate));
    for (Record& record : context_.database.general(gpu_))
      if (same_types(record.problem, kind)) candidates.push_back(std::move(record.candidate));
    return candidates;
  }

  /// The fastest records of each point without a general one, of candidates that are different.
  std::vector<Record> near_the_best() const {
    std::set<Problem> have;
    for (const Record& record : context_.database.general(gpu_)) have.insert(record.problem);
    std::vector<Record> near;
    std::set<Candidate> seen;
    for (const CoverPoint& point : result_.points) {
      if (have.contains(point.problem)) continue;
      std::vector<Record> records = ok_records(point.problem);
      std::stable_sort(records.begin(), records.end(), faster);
      int of_point = 0;
      for (Record& record : records) {
        if (of_point == kOfPoint || record.measurement->median_us > kNearBest * point.best_us)
          break;
        if (!seen.insert(record.candidate).second) continue;
        near.push_back(std::move(record));
        ++of_point;
      }
    }
    return near;
  }

  std::vector<Problem> other_sizes() const {
    RangePoints points(range_, ~options_.seed, options_.most_flops, options_.most_bytes);
    std::vector<Problem> problems;
    while (problems.size() < kOtherSizes) {
      std::optional<Problem> problem = points.next();
      if (!problem) break;
      problems.push_back(*std::move(problem));
    }
    return problems;
  }

  /// The winner of a race comes first, though the single timing of another was shorter.
  void prefer_winner(const Problem& problem, const std::vector<Candidate>& candidates,
                     PointTimes& times) const {
    const auto winner = context_.database.winner(problem, gpu_);
    if (!winner) return;
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [candidate, us] : times) best = std::min(best, us);
    for (auto& [candidate, us] : times)
      if (candidates[candidate] == winner->record.candidate) us = best * 0.999;
  }

  static bool is_general(const Record& record) {
    const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
    return kernel && !kernel->size_specialised &&
           (kernel->specialises.empty() ||
            record.candidate.configuration.at(kernel->specialises) == 0);
  }

  /// Makes a record the winner, unless its candidate is that already.
  void serve(const Record& record) {
    const auto stored = context_.database.winner(record.problem, gpu_);
    if (stored && stored->quarantined.empty() && stored->record.candidate == record.candidate)
      return;
    const ImageStore store(&context_.database, context_.cache, context_.compiler);
    const Built built = build(record.candidate, find_template(record.candidate.kernel_template),
                              record.problem, device_, store);
    if (built.missing || built.fault || !built.refusal.empty()) return;
    for (const Image& image : built.images) context_.database.put_image(image, record.id);
    context_.database.set_winner(record.id);
  }

  const SizeRange& range_;
  const CoverOptions& options_;
  TuneContext& context_;
  const std::function<void(const CoverProgress&)>& progress_;
  const std::chrono::steady_clock::time_point started_;
  const DeviceInfo device_;
  const std::string gpu_;
  const Resolver portfolio_;
  RangePoints points_;
  PointsAhead ahead_;
  int taken_ = 0;
  std::map<Layout, std::set<KernelSpec>> images_;
  CoverResult result_;
};

}  // namespace

CoverResult cover(const SizeRange& range, const CoverOptions& options, TuneContext& context,
                  const std::function<void(const CoverProgress&)>& progress) {
  return Covering(range, options, context, progress).run();
}

}  // namespace tilewise
