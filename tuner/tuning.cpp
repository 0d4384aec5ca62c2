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
// How long to wait for a compile before looking at the clock and at Ctrl-C again.
constexpr auto kPatience = std::chrono::milliseconds(50);

// Of the measurements that may be out of date: how many candidates are tried early.
constexpr std::size_t kSuggested = 4;

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
  search.space = space_hash(space_, options_.subspace);
  search.sources = sources_hash(context_.compiler ? context_.compiler->identity() : "");
  search.budget_seconds = options_.budget_seconds;
  search.max_evaluations = options_.max_evaluations;
  search.date = now_text();
  return search;
}

bool Tuning::finished_before() {
  const Search wanted = wanted_search();
  const auto winner = context_.database.winner(problem_, gpu_);
  const bool served =
      winner && winner->quarantined.empty() && winner->record.origin == Origin::measured;
  if (!options_.force && served)
    for (Search known : context_.database.searches(problem_, gpu_)) {
      if (!known.finished || !covers(known, wanted)) continue;
      if (known.sources != wanted.sources) {
        if (!still_good(known, winner->record)) continue;
        known.sources = wanted.sources;
        context_.database.update(known);
      }
      result_.already_done = true;
      return true;
    }
  search_ = begin_search(context_.database, wanted);
  return false;
}

/// Whether a search of other sources, or by another compiler, found what it would find now: its
/// kernels compile to the same machine code.
bool Tuning::still_good(const Search& known, const Record& winner) const {
  if (!context_.compiler || known.sources.empty()) return false;
  RecordFilter filter{.problem = problem_, .gpu = gpu_};
  std::vector<Record> records = context_.database.records(filter);
  std::erase_if(records, [](const Record& r) { return r.origin != Origin::measured; });
  return same_machine_code(records, winner.candidate, space_, store_, context_.database,
                           options_.compile_threads, [this] { return stopped(); });
}

const KernelTemplate* Tuning::kernel_of(const Candidate& candidate) const {
  return template_of(candidate, space_);
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
  StaleMeasurements of_others;  // of other machines: where to look, no measurements of this one
  RecordFilter filter;
  filter.problem = problem_;
  filter.gpu = gpu_;
  if (!options_.force)
    for (Record& record : context_.database.records(filter)) {
      if (record.origin != Origin::measured)
        of_others.add(std::move(record));
      else if (is_current(record))
        add_known(std::move(record));
      else
        stale_.add(std::move(record));
    }
  const bool incumbent_known =
      std::any_of(known_.begin(), known_.end(),
                  [this](const Record& record) { return record.candidate == incumbent_; });
  if (!incumbent_known) first_ = incumbent_;
  for (const StaleMeasurements* hints : {&stale_, &of_others})
    for (const Candidate& candidate : hints->fastest(kSuggested))
      if (space_.contains(candidate)) strategy_->suggest(candidate);
  for (const Candidate& candidate : good_elsewhere(context_.database, space_, gpu_))
    strategy_->suggest(candidate);
}

/// A measurement that need not be made again.
void Tuning::add_known(Record record) {
  const bool ok = is_ok(record);
  strategy_->observe(record.candidate,
                     ok ? std::optional(record.measurement->median_us) : std::nullopt);
  ++result_.reused;
  if (ok) known_.push_back(std::move(record));
}

void Tuning::prepare() {
  report("reference");
  const auto reference = std::make_shared<const Reference>(Reference::compute(problem_));
  try {
    context_.evaluator.begin(problem_, reference);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::transient) throw;
    context_.evaluator.begin(problem_, reference);
  }
}

double Tuning::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

bool Tuning::goes_on() {
  result_.interrupted = stopped();
  if (result_.failure) return false;
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
  record.code_hash = built.code_hash;
  record.compile_ms = built.compile_ms;
  record.predicted_us = estimate(built.plan, device_).seconds * 1e6;
  record.environment = environment();
  return record;
}

void Tuning::judge(Built built) {
  if (built.compiled) ++result_.compiled;
  if (built.missing || built.stopped) {  // nothing was learned about it: there is no record of it
    strategy_->observe(built.candidate, std::nullopt);
    --proposed_;
    return;
  }
  if (!built.fault.empty()) return meet_fault(built.candidate, Faults::Work::compile, built.fault);
  if (built.compiled) try_again(faults_.got_through(built.candidate, Faults::Work::compile));
  if (std::optional<Record> same = stale_.take(built)) {
    context_.database.renew(same->id, built.source_hash, built.launch_revision);
    same->source_hash = built.source_hash;
    same->launch_revision = built.launch_revision;
    --proposed_;
    add_known(std::move(*same));
    return report("search");
  }
  Record record = record_of(built);
  if (!built.refusal.empty()) {
    record.outcome = Outcome::compile_error;
    record.detail = built.refusal;
    return commit(std::move(record));
  }
  const Evaluation evaluation = evaluate(built);
  if (evaluation.transient)
    return meet_fault(built.candidate, Faults::Work::evaluation, evaluation.detail);
  commit(with_evaluation(std::move(record), evaluation));
  try_again(faults_.got_through(built.candidate, Faults::Work::evaluation));
}

/// An evaluator that cannot work at all is a fault like any other: the next try starts a new
/// worker.
Evaluation Tuning::evaluate(const Built& built) {
  try {
    return context_.evaluator.evaluate({built.plan, built.images, best_us()});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::database) throw;
    Evaluation evaluation;
    evaluation.detail = error.what();
    evaluation.transient = true;
    return evaluation;
  }
}

void Tuning::meet_fault(const Candidate& candidate, Faults::Work work, const std::string& why) {
  switch (faults_.add(candidate, work, why)) {
    case Faults::Next::try_again:
      return try_again({candidate});
    case Faults::Next::wait:
      return;
    case Faults::Next::give_up:
      return strategy_->observe(candidate, std::nullopt);
    case Faults::Next::end_search:
      result_.failure.emplace(ErrorKind::device,
                              "the search of " + to_string(problem_) +
                                  " ended early: candidate after candidate met a fault that is "
                                  "not its own: " +
                                  faults_.last());
  }
}

void Tuning::try_again(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) ahead_->add(candidate, *kernel_of(candidate));
}

/// Ends the compiler threads. Results that were not taken count only where they say why there are
/// not more.
void Tuning::end_compiling() {
  for (const Built& built : ahead_->end()) {
    if (built.stopped) ++result_.waited;
    if (!built.fault.empty() && !stopped())
      (void)faults_.add(built.candidate, Faults::Work::compile, built.fault);
  }
  ahead_.reset();
}

std::string Tuning::how_to_reproduce(const Candidate& candidate) const {
  if (options_.reproduce.empty()) return "";
  return "\nreproduce: " + reproduce_command(options_.reproduce, candidate);
}

void Tuning::commit(Record record) {
  const bool ok = is_ok(record);
  if (record.outcome != Outcome::ok) record.detail += how_to_reproduce(record.candidate);
  if (ok) known_.push_back(record);  // before it is stored: a full disk does not unmake the time
  record.id = context_.database.add(record);
  if (ok) known_.back().id = record.id;
  ++result_.evaluated;
  if (!ok) ++result_.rejected;
  strategy_->observe(record.candidate,
                     ok ? std::optional(record.measurement->median_us) : std::nullopt);
  report("search", &record);
}

TuneResult Tuning::finish() {
  result_.faults = faults_.count();
  result_.given_up = faults_.without_outcome();
  result_.last_fault = faults_.last();
  if (result_.failure && known_.empty()) throw Error(*result_.failure);
  if (!context_.compiler && !result_.already_done && !result_.interrupted && known_.empty() &&
      result_.evaluated == 0)
    throw Error(ErrorKind::compiler, "nothing can be tuned for " + to_string(problem_) +
                                         ": no image is stored, and there is no compiler to make "
                                         "one");
  if (known_.empty() && result_.given_up > 0 && !result_.interrupted)
    result_.failure.emplace(
        ErrorKind::transient,
        "no valid candidate was found for " + to_string(problem_) +
            ", and faults of the system left " + std::to_string(result_.given_up) +
            " candidates without an outcome; the last fault: " + result_.last_fault);
  result_.winner = context_.database.winner(problem_, gpu_);
  result_.baselines = context_.database.baselines(problem_, gpu_);
  result_.seconds = seconds();
  rank_predictions();
  if (search_) {
    const bool waited_only = known_.empty() && result_.waited > 0;
    search_->finished =
        !result_.interrupted && !result_.failure && result_.given_up == 0 && !waited_only;
    search_->evaluations += result_.evaluated;
    search_->seconds += result_.seconds;
    search_->date = now_text();
    context_.database.update(*search_);
  }
  report("done");
  return result_;
}

TuneResult Tuning::finish_unstored(const Error& error) {
  if (error.kind() != ErrorKind::database || !best()) throw;
  result_.failure = error;
  if (!result_.winner) {
    result_.winner = Winner{*best(), "", ""};
    result_.stored = false;
  }
  result_.faults = faults_.count();
  result_.given_up = faults_.without_outcome();
  result_.last_fault = faults_.last();
  result_.seconds = seconds();
  rank_predictions();
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
