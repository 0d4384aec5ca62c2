#include "tuner/tuning.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "matmul/stored_corrections.hpp"
#include "templates/cost_model.hpp"
#include "tilewise/error.hpp"
#include "tuner/confirm.hpp"
#include "tuner/evaluate/sampler.hpp"
#include "tuner/race.hpp"
#include "tuner/search/search.hpp"
#include "tuner/search/search_memory.hpp"
#include "tuner/search/warm_start.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

// The share of the budget for the race. Energies take some 20 s, but at most half of the budget.
constexpr double kRaceShare = 0.1, kMostRaceShare = 0.5, kEnergySeconds = 20;

// Numbers of candidates to try early: the fastest of possibly outdated measurements, and shipped
// ones, whose expected times are off by a factor of 1.14 in the median.
constexpr std::size_t kSuggested = 4, kShippedFirst = 3;

constexpr std::int64_t kLeastForEarlyEnd = 50;  // results before a search may end early

// Seconds (30 years). A larger budget is unlimited: a clock's ticks may not hold it.
constexpr double kEndless = 1e9;

// The search proposes no more after this many candidates in a row that would compile too long.
constexpr int kMostLate = 20;

// Proposals that wait while the device measures. With more, the search would choose without results
// that it could have waited for.
constexpr std::size_t kReady = 3;

/// The candidate without constant size; empty where it has none.
std::optional<Candidate> general_form(Candidate candidate, const KernelTemplate& kernel) {
  const std::string& specialises = kernel.specialises;
  if (specialises.empty() || candidate.configuration.at(specialises) == 0) return std::nullopt;
  candidate.configuration.set(specialises, 0);
  return candidate;
}

}  // namespace

Tuning::Tuning(const Problem& problem, const TuneOptions& options, TuneContext& context)
    : session_(problem, options, context),
      corrections_(load_corrections(context.database, problem, session_.device)),
      strategy_(make_chooser()),
      compile_times_(session_.space.templates()) {}

Tuning::~Tuning() {
  if (session_.context.shared) session_.context.shared->close();
}

double Tuning::predicted_seconds(const Candidate& candidate) const {
  const KernelTemplate* kernel = session_.kernel_of(candidate);
  if (!kernel) return 0;
  const Cost cost = estimate(
      kernel->plan(session_.problem, candidate.configuration, session_.device), session_.device);
  return corrections_ ? cost.seconds * corrections_->factor(candidate, session_.problem, cost)
                      : cost.seconds;
}

/// Without a compiler only stored images can be evaluated: the candidates are the defaults and
/// those with records of this GPU.
std::unique_ptr<Strategy> Tuning::make_chooser() const {
  if (!session_.options.only.empty()) {
    std::vector<Candidate> valid = session_.options.only;
    std::erase_if(valid, [this](const Candidate& candidate) {
      const KernelTemplate* kernel = session_.kernel_of(candidate);
      return !kernel ||
             !rejection(*kernel, session_.problem, candidate.configuration, session_.device)
                  .empty();
    });
    return make_list(std::move(valid));
  }
  if (session_.context.compiler) {
    Predict predict;
    if (can_estimate(session_.device))
      predict = [this](const Candidate& candidate) { return predicted_seconds(candidate); };
    std::unique_ptr<Strategy> strategy =
        make_search_strategy(session_.options.strategy, session_.space, session_.options.seed,
                             session_.options.brief, predict);
    const StrategyInfo& info = find_strategy(session_.options.strategy);
    if (!info.on_thread && !(info.by_model && predict)) return strategy;
    return make_background(std::move(strategy), kReady);
  }
  std::vector<Candidate> candidates = session_.space.defaults();
  RecordFilter filter;
  filter.gpu = session_.gpu;
  for (const Record& record : session_.context.database.records(filter))
    if (session_.space.contains(record.candidate)) candidates.push_back(record.candidate);
  return make_list(std::move(candidates));
}

Search Tuning::wanted_search() const {
  Search search;
  search.problem = session_.problem;
  search.gpu = session_.gpu;
  search.strategy = session_.options.strategy;
  search.seed = session_.options.seed;
  search.space = space_hash(session_.space, session_.options.subspace);
  search.sources =
      sources_hash(session_.context.compiler ? session_.context.compiler->identity() : "");
  search.objective = session_.options.objective;
  search.budget_seconds = session_.options.budget_seconds;
  search.max_evaluations = session_.options.max_evaluations;
  search.date = now_text();
  return search;
}

bool Tuning::finished_before() {
  store_facts(0);  // before the first record
  if (!session_.options.only.empty()) return false;
  const Search wanted = wanted_search();
  const auto winner = session_.context.database.winner(session_.problem, session_.gpu);
  const bool served = winner && winner->quarantined.empty() &&
                      winner->record.origin == Origin::measured &&
                      winner->objective == session_.options.objective;
  if (!session_.options.force && served)
    for (Search known : session_.context.database.searches(session_.problem, session_.gpu)) {
      if (!known.finished || !covers(known, wanted)) continue;
      if (known.sources != wanted.sources) {
        if (!still_good(known, winner->record)) continue;
        known.sources = wanted.sources;
        session_.context.database.update(known);
      }
      session_.result.already_done = true;
      return true;
    }
  search_ = begin_search(session_.context.database, wanted);
  return false;
}

/// Whether a search with other sources or another compiler would give the same result: its kernels
/// compile to the same machine code.
bool Tuning::still_good(const Search& known, const Record& winner) const {
  if (!session_.context.compiler || known.sources.empty()) return false;
  RecordFilter filter{.problem = session_.problem, .gpu = session_.gpu};
  std::vector<Record> records = session_.context.database.records(filter);
  std::erase_if(records, [](const Record& r) { return r.origin != Origin::measured; });
  return same_machine_code(records, winner.candidate, session_.space, session_.store,
                           session_.context.database, session_.options.compile_threads,
                           [this] { return session_.stopped(); });
}

/// Whether a record was measured with the kernel that would be built now. False for templates and
/// parameters that this version lacks.
bool Tuning::is_current(const Record& record) const {
  const KernelTemplate* kernel = session_.kernel_of(record.candidate);
  return kernel && !record.source_hash.empty() &&
         rejection(*kernel, session_.problem, record.candidate.configuration, session_.device)
             .empty() &&
         record.source_hash == current_source_hash(record.candidate, *kernel, session_.problem,
                                                   session_.device, session_.store);
}

void Tuning::recall() {
  ahead_ = std::make_unique<CompileAhead>(session_.problem, session_.device, session_.store,
                                          session_.options.compile_threads);
  ahead_->set_clock(&busy_);
  const auto winner = session_.context.database.winner(session_.problem, session_.gpu);
  if (winner && winner->quarantined.empty()) {
    const Candidate& candidate = winner->record.candidate;
    const KernelTemplate* kernel = session_.kernel_of(candidate);
    if (kernel &&
        rejection(*kernel, session_.problem, candidate.configuration, session_.device).empty())
      session_.incumbent = candidate, session_.incumbent_objective = winner->objective;
  }
  StaleMeasurements of_others;  // of other machines: only hints
  RecordFilter filter;
  filter.problem = session_.problem;
  filter.gpu = session_.gpu;
  if (!session_.options.force)
    for (Record& record : session_.context.database.records(filter)) {
      if (record.origin != Origin::measured)
        of_others.add(std::move(record));
      else if (is_current(record))
        add_known(std::move(record));
      else
        stale_.add(std::move(record));
    }
  const auto begin_with = [this](const Candidate& candidate, bool awaited) {
    const auto is_it = [&](const Record& record) { return record.candidate == candidate; };
    if (std::any_of(session_.known.begin(), session_.known.end(), is_it) ||
        !proposed_first_.insert(candidate).second)
      return;
    first_.push_back(candidate);
    if (awaited && (!session_.options.brief || awaited_.empty())) awaited_.insert(candidate);
  };
  if (session_.incumbent) begin_with(*session_.incumbent, true);
  for (const Candidate& candidate : session_.options.first)
    if (session_.space.allows(candidate)) begin_with(candidate, true);
  std::vector<Candidate> shipped;
  if (session_.options.first.empty() && session_.options.only.empty())
    shipped = shipped_candidates(session_.context.database, session_.space);
  for (std::size_t i = 0; i < std::min(shipped.size(), kShippedFirst); ++i)
    begin_with(shipped[i], i == 0);
  for (const StaleMeasurements* hints : {&stale_, &of_others})
    for (const Candidate& candidate : hints->fastest(kSuggested))
      if (session_.space.contains(candidate)) strategy_->suggest(candidate);
  for (const Candidate& candidate :
       transferred_candidates(session_.context.database, session_.space, session_.gpu))
    strategy_->suggest(candidate);
  for (const Candidate& candidate : shipped) strategy_->suggest(candidate);
}

/// Adds a measurement that need not be repeated.
void Tuning::add_known(Record record) {
  const bool ok = is_ok(record);
  awaited_.erase(record.candidate);
  strategy_->observe(record.candidate,
                     ok ? std::optional(record.measurement->median_us) : std::nullopt);
  ++session_.result.reused;
  if (ok) session_.known.push_back(std::move(record));
}

void Tuning::prepare() {
  session_.report("reference");
  session_.reference = std::make_shared<const Reference>(Reference::compute(session_.problem));
  try {
    session_.context.evaluator.begin(session_.problem, session_.reference);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::transient) throw;
    session_.context.evaluator.begin(session_.problem, session_.reference);
  }
  if (session_.context.shared) session_.context.shared->begin(session_.problem, session_.reference);
}

/// See TuneOptions::least_gain.
bool Tuning::expects_no_gain() const {
  if (!(session_.options.least_gain > 0)) return false;
  if (session_.result.evaluated + session_.result.reused < kLeastForEarlyEnd) return false;
  const std::optional<double> gain = strategy_->expected_gain();
  return gain && *gain < session_.options.least_gain;
}

bool Tuning::goes_on() {
  session_.result.interrupted = session_.stopped();
  if (session_.result.failure) return false;
  const bool limit = session_.options.max_evaluations > 0 &&
                     session_.result.evaluated >= session_.options.max_evaluations;
  if (!session_.result.interrupted && !limit && expects_no_gain()) {
    session_.result.ended_early = true;
    return false;
  }
  return !session_.result.interrupted && !limit && session_.seconds() < proposing_seconds();
}

/// The budget without the shares for the race and the winner's confirmation. While nothing is
/// measured, or not yet what serves the problem without this search, another budget more: a search
/// of a few seconds, whose first compiles take as long, has a winner that is no slower.
double Tuning::proposing_seconds() const {
  const double budget = session_.options.budget_seconds;
  const bool slow = objective_info(session_.options.objective).needs_energy;
  const double race = slow ? std::min(kEnergySeconds, kMostRaceShare * budget) : 0;
  const bool waits = session_.result.evaluated + session_.result.reused == 0 || !awaited_.empty();
  return budget * (waits ? 2 : 1) - std::max(race, kRaceShare * budget) - kConfirmShare * budget;
}

void Tuning::propose() {
  const auto may = [this] {
    return !ahead_->full() && late_in_a_row_ < kMostLate &&
           (session_.options.max_evaluations == 0 || proposed_ < session_.options.max_evaluations);
  };
  while (may()) {
    if (!first_.empty()) {
      begin(first_.front());
      first_.pop_front();
      ++proposed_;
      continue;
    }
    const std::optional<Candidate> candidate = strategy_->next();
    if (!candidate) return;
    if (proposed_first_.count(*candidate) > 0) continue;
    begin(*candidate);
    ++proposed_;
  }
}

void Tuning::begin(const Candidate& candidate) {
  using std::chrono::duration;
  auto latest = Patience::Clock::time_point::max();
  const std::optional<double> expected = compile_times_.expected(candidate);
  if (expected) expected_[candidate] = *expected;
  const double left = proposing_seconds() - session_.seconds() - expected.value_or(0);
  if (expected && session_.options.only.empty() && left < kEndless)
    latest = Patience::Clock::now() +
             std::chrono::duration_cast<Patience::Clock::duration>(duration<double>(left));
  ahead_->add(candidate, *session_.kernel_of(candidate), latest);
}

/// Learns from a compile, and compares its time with the expectation from the proposal.
void Tuning::note_compile(const Built& built) {
  const auto expected = expected_.extract(built.candidate);
  late_in_a_row_ = 0;
  if (!built.compiled || !(built.compiled_now_ms > 0)) return;
  const double seconds = built.compiled_now_ms * 1e-3;
  compile_times_.observe(built.candidate, seconds);
  session_.result.compile_seconds += seconds;
  if (expected) compile_errors_.push_back(std::abs(expected.mapped() / seconds - 1));
}

bool Tuning::nothing_under_way() const {
  const EvaluationQueue* shared = session_.context.shared;
  return ahead_->under_way() == 0 && (!shared || shared->under_way() == 0);
}

/// Candidates that wait for further devices keep this device busy while none is built.
void Tuning::step() {
  EvaluationQueue* shared = session_.context.shared;
  if (!shared) {
    if (std::optional<Built> built = ahead_->take(kBuildPatience)) judge(std::move(*built));
    return;
  }
  while (std::optional<EvaluationQueue::Done> done = shared->take())
    conclude(done->built, done->evaluation);
  if (std::optional<Built> built = ahead_->take(std::chrono::milliseconds(0)))
    judge(std::move(*built));
  else if (std::optional<Built> waiting = shared->take_back())
    conclude(*waiting, evaluate(*waiting));
  else if ((built = ahead_->take(kBuildPatience)))
    judge(std::move(*built));
}

Record Tuning::record_of(const Built& built) const {
  Record record;
  record.problem = session_.problem;
  record.candidate = built.candidate;
  record.gpu = session_.gpu;
  record.source_hash = built.source_hash;
  record.launch_revision = built.launch_revision;
  record.code_hash = built.code_hash;
  record.compile_ms = built.compile_ms;
  record.predicted_us = estimate(built.plan, session_.device).seconds * 1e6;
  record.environment = session_.environment();
  return record;
}

void Tuning::judge(Built built) {
  if (built.late || built.missing || built.stopped || built.fault) awaited_.erase(built.candidate);
  if (built.late) {  // not reported to the strategy: the search is about to end
    ++session_.result.too_late;
    ++late_in_a_row_;
    --proposed_;
    return;
  }
  note_compile(built);
  if (built.compiled) ++session_.result.compiled;
  if (built.missing || built.stopped) {  // no outcome: no record
    strategy_->observe(built.candidate, std::nullopt);
    --proposed_;
    return;
  }
  if (built.fault) return meet_fault(built.candidate, Faults::Work::compile, built.fault->what());
  if (built.compiled) try_again(faults_.got_through(built.candidate, Faults::Work::compile));
  if (std::optional<Record> same = stale_.take(built)) {
    session_.context.database.renew(same->id, built.source_hash, built.launch_revision);
    same->source_hash = built.source_hash;
    same->launch_revision = built.launch_revision;
    --proposed_;
    add_known(std::move(*same));
    return session_.report("search");
  }
  if (!built.refusal.empty()) {
    Record record = record_of(built);
    record.outcome = Outcome::compile_error;
    record.detail = built.refusal;
    return commit(std::move(record));
  }
  EvaluationQueue* shared = session_.context.shared;
  if (shared && shared->wants_more()) return shared->add(std::move(built), session_.best_us());
  conclude(built, evaluate(built));
}

/// Commits the record of an evaluation.
void Tuning::conclude(const Built& built, const Evaluation& evaluation) {
  if (evaluation.transient)
    return meet_fault(built.candidate, Faults::Work::evaluation, evaluation.detail);
  commit(with_evaluation(record_of(built), evaluation));
  try_again(faults_.got_through(built.candidate, Faults::Work::evaluation));
}

Evaluation Tuning::evaluate(const Built& built) {
  const double began = session_.seconds();
  busy_.set(BusyClock::device, true);
  Evaluation evaluation = try_evaluate(built);
  session_.result.evaluate_seconds += session_.seconds() - began;
  busy_.set(BusyClock::device, false);
  return evaluation;
}

/// An evaluator that fails is treated as a fault: the next try starts a new worker.
Evaluation Tuning::try_evaluate(const Built& built) {
  try {
    return session_.context.evaluator.evaluate({built.plan, built.images, session_.best_us()});
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
      session_.result.failure.emplace(
          ErrorKind::device, "the search of " + to_string(session_.problem) +
                                 " ended early: candidate after candidate met a fault that is "
                                 "not its own: " +
                                 faults_.last());
  }
}

void Tuning::try_again(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) begin(candidate);
}

/// Of the results not taken, only compiles of other processes and faults are counted.
void Tuning::end_compiling() {
  for (const Built& built : ahead_->end()) {
    if (built.stopped) ++session_.result.waited;
    if (built.fault && !built.missing && !session_.stopped())
      (void)faults_.add(built.candidate, Faults::Work::compile, built.fault->what());
  }
  ahead_.reset();
}

void Tuning::commit(Record record) {
  const bool ok = is_ok(record);
  awaited_.erase(record.candidate);
  if (record.outcome != Outcome::ok) record.detail += session_.how_to_reproduce(record.candidate);
  // Before storing, so that a full disk does not lose the measured time.
  if (ok) session_.known.push_back(record);
  record.id = session_.context.database.add(record);
  if (ok) session_.known.back().id = record.id;
  ++session_.result.evaluated;
  if (!ok) ++session_.result.rejected;
  if (record.outcome == Outcome::wrong_result) session_.result.wrong.push_back(record);
  strategy_->observe(record.candidate,
                     ok ? std::optional(record.measurement->median_us) : std::nullopt);
  session_.report("search", &record);
}

// The end of a run: evaluations as records, race, general form, result ----------------------------

Record with_evaluation(Record record, const Evaluation& evaluation) {
  record.outcome = evaluation.outcome;
  record.detail = evaluation.detail;
  record.measurement = evaluation.measurement;
  record.usage = evaluation.usage;
  record.error_ratio = evaluation.error_ratio;
  record.normwise_error = evaluation.normwise_error;
  return record;
}

/// Ends the work of further devices, and commits their measurements.
void Tuning::end_sharing() {
  if (!session_.context.shared) return;
  for (const EvaluationQueue::Done& done : session_.context.shared->close())
    conclude(done.built, done.evaluation);
}

void Tuning::race() {
  session_.result.search_seconds = session_.seconds();
  session_.result.busy_seconds = busy_.seconds();
  end_sharing();
  end_compiling();
  if (session_.options.compare) return;
  Race(session_).run();
  if (!session_.stopped() && !session_.result.failure) keep_general();
}

/// For a winner that is specialised on its size: measures the form that serves other sizes, and
/// stores its images.
void Tuning::keep_general() {
  const auto winner = session_.context.database.winner(session_.problem, session_.gpu);
  if (!winner || !winner->quarantined.empty()) return;
  const KernelTemplate* kernel = session_.kernel_of(winner->record.candidate);
  const std::optional<Candidate> general =
      kernel ? general_form(winner->record.candidate, *kernel) : std::nullopt;
  if (!general ||
      !rejection(*kernel, session_.problem, general->configuration, session_.device).empty())
    return;
  const Built built = build(*general, *kernel, session_.problem, session_.device, session_.store);
  if (built.compiled) ++session_.result.compiled;
  if (built.missing || built.stopped || built.fault || !built.refusal.empty()) return;
  const auto known =
      std::find_if(session_.known.begin(), session_.known.end(),
                   [&](const Record& record) { return record.candidate == general; });
  Record record;
  if (known != session_.known.end()) {
    record = *known;
  } else {
    const Evaluation evaluation = try_evaluate(built);
    if (evaluation.transient) return;
    record = with_evaluation(record_of(built), evaluation);
    record.id = session_.context.database.add(record);
    ++session_.result.evaluated;
  }
  if (!is_ok(record)) return;
  const Evaluation confirmed = confirm(session_, built);
  if (confirmed.transient) return;
  if (confirmed.outcome != Outcome::ok) {
    record.measurement.reset();
    return session_.note_outcome(record, confirmed);
  }
  const std::int64_t id = record.id;
  for (const Image& image : built.images) session_.context.database.put_image(image, id);
  session_.context.database.set_general(id);
}

void Tuning::store_facts(double power_limit_w) {
  session_.context.database.put(facts_of(session_.device, power_limit_w, now_text()));
}

void Tuning::note_faults() {
  session_.result.faults = faults_.count();
  session_.result.given_up = faults_.without_outcome();
  session_.result.last_fault = faults_.last();
}

TuneResult Tuning::finish() {
  note_faults();
  if (session_.result.failure && session_.known.empty()) throw Error(*session_.result.failure);
  if (!session_.context.compiler && !session_.result.already_done && !session_.result.interrupted &&
      session_.known.empty() && session_.result.evaluated == 0)
    throw Error(ErrorKind::compiler, "nothing can be tuned for " + to_string(session_.problem) +
                                         ": no image is stored, and there is no compiler to make "
                                         "one");
  if (session_.known.empty() && session_.result.given_up > 0 && !session_.result.interrupted)
    session_.result.failure.emplace(
        ErrorKind::transient,
        "no valid candidate was found for " + to_string(session_.problem) +
            ", and faults of the system left " + std::to_string(session_.result.given_up) +
            " candidates without an outcome; the last fault: " + session_.result.last_fault);
  session_.result.winner = session_.context.database.winner(session_.problem, session_.gpu);
  if (session_.result.winner && session_.result.winner->record.origin == Origin::measured &&
      session_.result.winner->record.measurement)
    store_facts(session_.result.winner->record.measurement->power_limit_w);
  session_.result.baselines = session_.context.database.baselines(session_.problem, session_.gpu);
  session_.result.seconds = session_.seconds();
  session_.result.lock_seconds = session_.lock_seconds();
  rank_predictions();
  session_.result.compiles_expected = std::ssize(compile_errors_);
  session_.result.compile_error = quantile(compile_errors_, 0.5);
  if (search_) {
    const bool waited_only = session_.known.empty() && session_.result.waited > 0;
    search_->finished = !session_.result.interrupted && !session_.result.ended_early &&
                        !session_.result.failure && session_.result.given_up == 0 && !waited_only;
    search_->evaluations += session_.result.evaluated;
    search_->seconds += session_.result.seconds;
    search_->date = now_text();
    session_.context.database.update(*search_);
  }
  session_.report("done");
  return session_.result;
}

TuneResult Tuning::finish_unstored(const Error& error) {
  if (error.kind() != ErrorKind::database || !session_.best()) throw;
  session_.result.failure = error;
  if (!session_.result.winner) {
    session_.result.winner = Winner{*session_.best(), "", "", Objective::time};
    session_.result.stored = false;
  }
  note_faults();
  session_.result.seconds = session_.seconds();
  session_.result.lock_seconds = session_.lock_seconds();
  rank_predictions();
  return session_.result;
}

void Tuning::rank_predictions() {
  std::vector<double> predicted, measured;
  for (const Record& record : session_.known) {
    if (!(record.predicted_us > 0)) continue;
    predicted.push_back(record.predicted_us);
    measured.push_back(time_of(record));
  }
  session_.result.ranked = static_cast<std::int64_t>(predicted.size());
  session_.result.rank_correlation = rank_correlation(predicted, measured);
}

}  // namespace tilewise
