#include "tuner/tuning.hpp"

#include <algorithm>
#include <utility>

#include "templates/cost_model.hpp"
#include "tilewise/error.hpp"
#include "tuner/crown.hpp"
#include "tuner/reproduce.hpp"
#include "tuner/search/ordered.hpp"
#include "tuner/search/search.hpp"
#include "tuner/search_memory.hpp"
#include "tuner/warm_start.hpp"

namespace tilewise {
namespace {

// Of the budget, kept for the race.
constexpr double kRaceShare = 0.1;
// Where all finalists turn out to be wrong, so often in all.
constexpr int kMostRaces = 5;
// How long to wait for a compile before looking at the clock and at Ctrl-C again.
constexpr auto kPatience = std::chrono::milliseconds(50);

const Problem& checked(const Problem& problem, const TuneOptions& options) {
  if (problem.m < 1 || problem.n < 1 || problem.k < 1 || problem.batch < 1)
    throw Error(ErrorKind::invalid_argument,
                "nothing to tune in " + to_string(problem) + ": every size must be at least 1");
  if (!(options.budget_seconds > 0))
    throw Error(ErrorKind::invalid_argument, "the budget must be more than 0 seconds");
  return problem;
}

Record with_evaluation(Record record, const Evaluation& evaluation) {
  record.outcome = evaluation.outcome;
  record.detail = evaluation.detail;
  record.measurement = evaluation.measurement;
  record.usage = evaluation.usage;
  record.error_ratio = evaluation.error_ratio;
  record.normwise_error = evaluation.normwise_error;
  return record;
}

bool by_model(const std::string& strategy) {
  const auto all = strategies();
  return std::any_of(all.begin(), all.end(), [&](const StrategyInfo& info) {
    return info.name == strategy && info.by_model;
  });
}

const Built* find_built(const std::vector<Built>& all, const Candidate& candidate) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Built& b) { return b.candidate == candidate; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

Tuning::Tuning(const Problem& problem, const TuneOptions& options, TuneContext& context)
    : problem_(checked(problem, options)),
      options_(options),
      context_(context),
      started_(std::chrono::steady_clock::now()),
      device_(context.evaluator.device_info()),
      gpu_(gpu_key(device_)),
      space_(problem, device_, options.templates.empty() ? select_templates() : options.templates,
             options.subspace),
      store_(&context.database, context.cache, context.compiler),
      strategy_(make_chooser()) {}

double Tuning::predicted_seconds(const Candidate& candidate) const {
  const KernelTemplate* kernel = kernel_of(candidate);
  if (!kernel) return 0;
  return estimate(kernel->plan(problem_, candidate.configuration, device_), device_).seconds;
}

/// Without a compiler only stored images can be evaluated: those that some record of this GPU is
/// of.
std::unique_ptr<Strategy> Tuning::make_chooser() const {
  if (context_.compiler) {
    std::unique_ptr<Strategy> named = make_strategy(options_.strategy, space_, options_.seed);
    if (!by_model(options_.strategy) || !can_estimate(device_)) return named;
    return make_ordered(
        std::move(named), space_, options_.seed,
        [this](const Candidate& candidate) { return predicted_seconds(candidate); });
  }
  std::vector<Candidate> candidates = space_.defaults();
  RecordFilter filter;
  filter.gpu = gpu_;
  for (const Record& record : context_.database.records(filter))
    if (space_.contains(record.candidate)) candidates.push_back(record.candidate);
  return make_given(std::move(candidates));
}

Search Tuning::wanted_search() const {
  Search search;
  search.problem = problem_;
  search.gpu = gpu_;
  search.strategy = options_.strategy;
  search.seed = options_.seed;
  search.space =
      space_hash(space_, options_.subspace, context_.compiler ? context_.compiler->identity() : "");
  search.budget_seconds = options_.budget_seconds;
  search.max_evaluations = options_.max_evaluations;
  search.date = now_text();
  return search;
}

bool Tuning::finished_before() {
  const Search wanted = wanted_search();
  const auto winner = context_.database.winner(problem_, gpu_);
  if (!options_.force && winner && winner->quarantined.empty())
    for (const Search& known : context_.database.searches(problem_, gpu_))
      result_.already_done |= known.finished && covers(known, wanted);
  if (!result_.already_done) search_ = begin_search(context_.database, wanted);
  return result_.already_done;
}

const KernelTemplate* Tuning::kernel_of(const Candidate& candidate) const {
  for (const KernelTemplate* kernel : space_.templates())
    if (kernel->name == candidate.kernel_template) return kernel;
  for (const KernelTemplate& kernel : catalog())
    if (kernel.name == candidate.kernel_template) return &kernel;
  return nullptr;
}

/// Measured of what would be built now. Rows of other versions' templates and parameters are not.
bool Tuning::is_current(const Record& record) const {
  const KernelTemplate* kernel = kernel_of(record.candidate);
  return kernel && !record.source_hash.empty() &&
         rejection(*kernel, problem_, record.candidate.configuration, device_).empty() &&
         record.source_hash ==
             current_source_hash(record.candidate, *kernel, problem_, device_, store_);
}

void Tuning::recall() {
  ahead_ = std::make_unique<CompileAhead>(problem_, device_, store_, options_.compile_threads);
  const auto winner = context_.database.winner(problem_, gpu_);
  if (winner && winner->quarantined.empty()) {
    const Candidate& candidate = winner->record.candidate;
    const KernelTemplate* kernel = kernel_of(candidate);
    if (kernel && rejection(*kernel, problem_, candidate.configuration, device_).empty())
      incumbent_ = candidate;
  }
  RecordFilter filter;
  filter.problem = problem_;
  filter.gpu = gpu_;
  bool incumbent_known = false;
  if (!options_.force)
    for (Record& record : context_.database.records(filter)) {
      if (!is_current(record)) continue;
      const bool ok = is_ok(record);
      strategy_->observe(record.candidate,
                         ok ? std::optional(record.measurement->median_us) : std::nullopt);
      incumbent_known |= record.candidate == incumbent_;
      ++result_.reused;
      if (ok) known_.push_back(std::move(record));
    }
  if (!incumbent_known) first_ = incumbent_;
  for (const Candidate& candidate : good_elsewhere(context_.database, space_, gpu_))
    strategy_->suggest(candidate);
}

void Tuning::prepare() {
  report("reference");
  context_.evaluator.begin(problem_,
                           std::make_shared<const Reference>(Reference::compute(problem_)));
}

double Tuning::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

bool Tuning::goes_on() {
  result_.interrupted = stopped();
  const bool limit = options_.max_evaluations > 0 && result_.evaluated >= options_.max_evaluations;
  return !result_.interrupted && !limit && seconds() < options_.budget_seconds * (1 - kRaceShare);
}

void Tuning::propose() {
  const auto may = [this] {
    return !ahead_->full() &&
           (options_.max_evaluations == 0 || proposed_ < options_.max_evaluations);
  };
  if (first_) {
    ahead_->add(*first_, *kernel_of(*first_));
    first_.reset();
    ++proposed_;
  }
  while (may()) {
    const std::optional<Candidate> candidate = strategy_->next();
    if (!candidate) return;
    if (candidate == incumbent_) continue;  // it went first
    ahead_->add(*candidate, *kernel_of(*candidate));
    ++proposed_;
  }
}

std::optional<Built> Tuning::next_built() { return ahead_->take(kPatience); }

const Record* Tuning::best() const {
  const auto found =
      std::min_element(known_.begin(), known_.end(),
                       [](const Record& x, const Record& y) { return time_of(x) < time_of(y); });
  return found == known_.end() ? nullptr : &*found;
}

double Tuning::best_us() const { return best() ? time_of(*best()) : 0; }

Environment Tuning::environment() const {
  return {context_.evaluator.driver_version(),
          context_.compiler ? context_.compiler->version() : "", host_name(), now_text()};
}

Record Tuning::record_of(const Built& built) const {
  Record record;
  record.problem = problem_;
  record.candidate = built.candidate;
  record.gpu = gpu_;
  record.source_hash = built.source_hash;
  record.launch_revision = built.launch_revision;
  record.compile_ms = built.compile_ms;
  record.predicted_us = estimate(built.plan, device_).seconds * 1e6;
  record.environment = environment();
  return record;
}

void Tuning::judge(const Built& built) {
  if (built.compiled) ++result_.compiled;
  if (built.missing) {  // nothing was learned about it, so there is no record of it
    strategy_->observe(built.candidate, std::nullopt);
    --proposed_;
    return;
  }
  Record record = record_of(built);
  if (built.refusal.empty()) {
    record = with_evaluation(std::move(record),
                             context_.evaluator.evaluate({built.plan, built.images, best_us()}));
  } else {
    record.outcome = Outcome::compile_error;
    record.detail = built.refusal;
  }
  commit(std::move(record));
}

std::string Tuning::how_to_reproduce(const Candidate& candidate) const {
  if (options_.reproduce.empty()) return "";
  return "\nreproduce: " + reproduce_command(options_.reproduce, candidate);
}

void Tuning::commit(Record record) {
  const bool ok = is_ok(record);
  if (record.outcome != Outcome::ok) record.detail += how_to_reproduce(record.candidate);
  record.id = context_.database.add(record);
  ++result_.evaluated;
  if (!ok) ++result_.rejected;
  strategy_->observe(record.candidate,
                     ok ? std::optional(record.measurement->median_us) : std::nullopt);
  if (ok) known_.push_back(record);
  report("search", &record);
}

std::vector<Built> Tuning::build_all(const std::vector<Record>& records) {
  CompileAhead pool(problem_, device_, store_, options_.compile_threads);
  for (const Record& record : records) pool.add(record.candidate, *kernel_of(record.candidate));
  std::vector<Built> all;
  while (pool.under_way() > 0)
    if (std::optional<Built> built = pool.take(kPatience)) {
      if (built->compiled) ++result_.compiled;
      if (!built->missing && built->refusal.empty()) all.push_back(std::move(*built));
    }
  return all;
}

void Tuning::race() {
  ahead_.reset();
  for (int round = 0; round < kMostRaces && race_once(); ++round) result_.interrupted = stopped();
}

/// Whether the next best must race: those that did were wrong after all. Interrupted runs do not
/// race: the best so far is served only where nothing is served yet.
bool Tuning::race_once() {
  std::vector<Record> finalists = pick_finalists(known_, options_.finalists, incumbent_);
  if (finalists.empty()) return false;
  report("race");
  if (result_.interrupted) finalists.resize(1);
  const std::vector<Built> built = build_all(finalists);
  std::erase_if(finalists, [&](const Record& r) { return !find_built(built, r.candidate); });
  if (finalists.empty()) return false;
  const bool raced = !result_.interrupted && measure_again(finalists, built);
  const bool any_wrong = forget_wrong(finalists);
  const Record* winner = raced ? crown(finalists, incumbent_) : nullptr;
  if (!raced && !any_wrong && !incumbent_) winner = &finalists.front();
  keep_images(finalists, built);
  if (!winner) return any_wrong;
  const auto stored = context_.database.winner(problem_, gpu_);
  if (!stored || stored->record.id != winner->id || !stored->quarantined.empty())
    context_.database.set_winner(winner->id);
  return false;
}

/// Whether any finalist was wrong in the race: such are candidates no more, nor to be beaten.
bool Tuning::forget_wrong(const std::vector<Record>& finalists) {
  bool any = false;
  for (const Record& finalist : finalists) {
    if (finalist.outcome != Outcome::wrong_result) continue;
    any = true;
    std::erase_if(known_, [&](const Record& r) { return r.candidate == finalist.candidate; });
    if (incumbent_ == finalist.candidate) incumbent_.reset();
  }
  return any;
}

/// False when the race came to nothing: no finalist is ok. Then their records stay as they are,
/// since an evaluator that cannot tell whose fault it was gives all of them the same outcome; but a
/// wrong result is always its finalist's own.
bool Tuning::measure_again(std::vector<Record>& finalists, const std::vector<Built>& built) {
  std::vector<EvaluationRequest> requests;
  for (const Record& record : finalists) {
    const Built* parts = find_built(built, record.candidate);
    requests.push_back({parts->plan, parts->images, best_us()});
  }
  RaceResult race = context_.evaluator.race(requests, true);
  if (race.finalists.size() != finalists.size())
    throw Error(ErrorKind::device, "a race of " + std::to_string(finalists.size()) +
                                       " finalists came back with " +
                                       std::to_string(race.finalists.size()) + " results");
  for (Baseline& baseline : race.baselines) {
    baseline.problem = problem_;
    baseline.gpu = gpu_;
    baseline.environment = environment();
    context_.database.add(baseline);
  }
  const bool raced = finalists.size() == 1 ||
                     std::any_of(race.finalists.begin(), race.finalists.end(),
                                 [](const Evaluation& e) { return e.outcome == Outcome::ok; });
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (!raced && race.finalists[i].outcome != Outcome::wrong_result) continue;
    Record& record = finalists[i];
    record.outcome = race.finalists[i].outcome;
    record.detail = race.finalists[i].detail;
    if (record.outcome != Outcome::ok) record.detail += how_to_reproduce(record.candidate);
    record.measurement = race.finalists[i].measurement;
    record.environment = environment();
    record.id = context_.database.add(record);
  }
  return raced;
}

void Tuning::keep_images(const std::vector<Record>& records, const std::vector<Built>& built) {
  for (const Record& record : records)
    for (const Image& image : find_built(built, record.candidate)->images)
      context_.database.put_image(image, record.id);
}

TuneResult Tuning::finish() {
  if (!context_.compiler && !result_.already_done && !result_.interrupted && known_.empty() &&
      result_.evaluated == 0)
    throw Error(ErrorKind::compiler, "nothing can be tuned for " + to_string(problem_) +
                                         ": no image is stored, and there is no compiler to make "
                                         "one");
  result_.winner = context_.database.winner(problem_, gpu_);
  result_.baselines = context_.database.baselines(problem_, gpu_);
  result_.seconds = seconds();
  rank_predictions();
  if (search_) {
    search_->finished = !result_.interrupted;
    search_->evaluations += result_.evaluated;
    search_->seconds += result_.seconds;
    search_->date = now_text();
    context_.database.update(*search_);
  }
  report("done");
  return result_;
}

void Tuning::rank_predictions() {
  std::vector<double> predicted, measured;
  for (const Record& record : known_) {
    if (!(record.predicted_us > 0)) continue;
    predicted.push_back(record.predicted_us);
    measured.push_back(time_of(record));
  }
  result_.ranked = static_cast<std::int64_t>(predicted.size());
  result_.rank_correlation = rank_correlation(predicted, measured);
}

void Tuning::report(const std::string& phase, const Record* last) {
  if (!context_.progress) return;
  TuneProgress progress;
  progress.problem = &problem_;
  progress.phase = phase;
  progress.evaluated = result_.evaluated;
  progress.rejected = result_.rejected;
  progress.compiled = result_.compiled;
  progress.reused = result_.reused;
  progress.seconds = seconds();
  progress.budget_seconds = options_.budget_seconds;
  if (best()) progress.best = *best();
  progress.last = last;
  context_.progress(progress);
}

}  // namespace tilewise
