#include "tuner/race.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/confirm.hpp"
#include "tuner/select_winner.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

// The largest number of races when finalists are wrong.
constexpr int kMostRaces = 5;

const Built* find_built(const std::vector<Built>& all, const Candidate& candidate) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Built& b) { return b.candidate == candidate; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Built> Race::build_all(const std::vector<Record>& records) {
  CompileAhead pool(session_.problem, session_.device, session_.store,
                    session_.options.compile_threads);
  for (const Record& record : records)
    pool.add(record.candidate, *session_.kernel_of(record.candidate));
  std::vector<Built> all;
  // After Ctrl-C one finalist is left, whose images are most likely stored.
  while (pool.under_way() > 0 && (session_.result.interrupted || !session_.stopped()))
    if (std::optional<Built> built = pool.take(kBuildPatience)) {
      if (built->compiled) ++session_.result.compiled;
      const bool whole = !built->stopped && !built->fault && built->refusal.empty();
      if (whole) all.push_back(std::move(*built));
    }
  return all;
}

void Race::run() {
  for (int round = 0; round < kMostRaces && run_once(); ++round)
    session_.result.interrupted = session_.stopped();
}

/// Races the current finalists and confirms the winner. True when some were wrong and there is no
/// winner: the next best candidates race then. An interrupted run does not race: its best candidate
/// is served only where no winner is stored.
bool Race::run_once() {
  std::vector<Record> finalists = pick_finalists(session_.known, session_.options.finalists,
                                                 session_.incumbent, session_.options.objective);
  if (finalists.empty()) return false;
  session_.report("race");
  if (session_.stopped()) session_.result.interrupted = true;
  if (session_.result.interrupted) finalists.resize(1);
  const std::vector<Built> built = build_all(finalists);
  std::vector<Record> racing = finalists;
  std::erase_if(racing, [&](const Record& r) { return !find_built(built, r.candidate); });
  if (racing.empty() && session_.stopped() && !session_.result.interrupted)
    return true;  // Ctrl-C ended the builds: the next round confirms the best
  const bool raced =
      !session_.result.interrupted && !racing.empty() && measure_again(racing, built);
  bool any_wrong = forget_wrong(racing);
  if (raced) finalists = racing;
  const Record* winner = nullptr;
  Confirmed confirmed = Confirmed::unknown;
  while ((winner = winner_of(finalists, raced, any_wrong))) {
    Record& record = finalists[static_cast<std::size_t>(winner - finalists.data())];
    confirmed = confirm_winner(record, built);
    if (confirmed != Confirmed::no) break;
    any_wrong = true;
  }
  keep_images(racing, built);
  if (!winner) {
    if (raced && !any_wrong) note_missing_cost(racing);
    return any_wrong;
  }
  if (confirmed == Confirmed::yes) store_winner(*winner, raced);
  return false;
}

/// See confirm(). `unknown`: the winner is not stored.
Race::Confirmed Race::confirm_winner(Record& winner, const std::vector<Built>& built) {
  const Built* parts = find_built(built, winner.candidate);
  if (!parts) {
    note_unconfirmed("it could not be built again");
    return Confirmed::unknown;
  }
  session_.report("confirm");
  const Evaluation found = confirm(session_, *parts);
  session_.result.observed += found.observed + found.pressed;
  if (found.outcome == Outcome::ok && !found.transient) return Confirmed::yes;
  if (found.transient) {
    note_unconfirmed(found.detail);
    return Confirmed::unknown;
  }
  std::erase_if(session_.known, [&](const Record& r) { return r.candidate == winner.candidate; });
  if (session_.incumbent == winner.candidate) session_.incumbent.reset();
  winner.measurement.reset();
  session_.note_outcome(winner, found);
  return Confirmed::no;
}

void Race::note_unconfirmed(const std::string& why) {
  if (!session_.result.failure)
    session_.result.failure.emplace(ErrorKind::transient,
                                    "the winner of " + to_string(session_.problem) +
                                        " was not confirmed and not stored: " + why);
}

/// A winner without a race is the fastest, whatever the objective.
void Race::store_winner(const Record& winner, bool raced) {
  const Objective objective = raced ? session_.options.objective : Objective::time;
  const auto stored = session_.context.database.winner(session_.problem, session_.gpu);
  if (!stored || stored->record.id != winner.id || !stored->quarantined.empty() ||
      (raced && stored->objective != objective))
    session_.context.database.set_winner(winner.id, objective);
}

/// Reports that finalists ran, but the quantity to minimise could not be measured.
void Race::note_missing_cost(const std::vector<Record>& racing) {
  const ObjectiveInfo& objective = objective_info(session_.options.objective);
  if (!objective.cost || session_.result.failure) return;
  if (std::none_of(racing.begin(), racing.end(), is_ok)) return;
  session_.result.failure.emplace(
      ErrorKind::unsupported, "the " + std::string(objective.name) + " of no finalist of " +
                                  to_string(session_.problem) +
                                  " could be measured: the readings of " + session_.device.name +
                                  " did not change while they ran; no winner was stored");
}

/// The incumbent that a winner must beat; empty if another objective chose it.
std::optional<Candidate> Race::to_beat() const {
  const bool same = session_.incumbent_objective == session_.options.objective;
  return same ? session_.incumbent : std::nullopt;
}

/// The winner of the race. Without a race (interrupted, or the evaluator failed), the best of the
/// search if no winner is stored, or if the stored winner was measured in this search and is
/// slower.
const Record* Race::winner_of(const std::vector<Record>& finalists, bool raced,
                              bool any_wrong) const {
  if (raced) return select_winner(finalists, to_beat(), session_.options.objective);
  if (any_wrong) return nullptr;
  if (!session_.incumbent) return &finalists.front();
  const bool measured = std::any_of(finalists.begin(), finalists.end(), [this](const Record& r) {
    return r.candidate == session_.incumbent;
  });
  const bool by_time = session_.options.objective == Objective::time &&
                       session_.incumbent_objective == Objective::time;
  return measured && by_time && !session_.result.interrupted
             ? select_winner(finalists, session_.incumbent)
             : nullptr;
}

/// Removes finalists that were wrong in the race from the candidates and as the incumbent. Returns
/// whether there was any.
bool Race::forget_wrong(const std::vector<Record>& finalists) {
  bool any = false;
  for (const Record& finalist : finalists) {
    if (finalist.outcome != Outcome::wrong_result) continue;
    any = true;
    std::erase_if(session_.known,
                  [&](const Record& r) { return r.candidate == finalist.candidate; });
    if (session_.incumbent == finalist.candidate) session_.incumbent.reset();
  }
  return any;
}

/// Repeats the race once when a fault of the system ended it.
RaceResult Race::measure(const std::vector<EvaluationRequest>& requests) {
  RaceResult race;
  std::optional<Error> failure;
  for (int tries = 0; tries < 2; ++tries) {
    failure.reset();
    try {
      race = session_.context.evaluator.race(requests, true);
      const bool whole = std::none_of(race.finalists.begin(), race.finalists.end(),
                                      [](const Evaluation& e) { return e.transient; });
      if (whole) break;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::database) throw;
      failure = error;
      race = {};
      race.finalists.resize(requests.size());
      for (Evaluation& evaluation : race.finalists) evaluation.transient = true;
    }
  }
  if (failure && !session_.result.failure) session_.result.failure = failure;
  return race;
}

/// False when no finalist is ok. Their records then stay unchanged, since an evaluator that cannot
/// determine the failing finalist gives all the same outcome; only wrong results are recorded.
bool Race::measure_again(std::vector<Record>& finalists, const std::vector<Built>& built) {
  std::vector<EvaluationRequest> requests;
  for (const Record& record : finalists) {
    const Built* parts = find_built(built, record.candidate);
    requests.push_back({.plan = parts->plan,
                        .images = parts->images,
                        .best_us = session_.best_us(),
                        .energy = objective_info(session_.options.objective).needs_energy});
  }
  RaceResult race = measure(requests);
  if (race.finalists.size() != finalists.size())
    throw Error(ErrorKind::device, "a race of " + std::to_string(finalists.size()) +
                                       " finalists came back with " +
                                       std::to_string(race.finalists.size()) + " results");
  // Before anything is stored: if storing fails, a wrong finalist is not named as the winner.
  for (std::size_t i = 0; i < finalists.size(); ++i)
    if (race.finalists[i].outcome == Outcome::wrong_result && !race.finalists[i].transient)
      std::erase_if(session_.known,
                    [&](const Record& r) { return r.candidate == finalists[i].candidate; });
  // One environment for all, since it identifies the race (certainty.hpp).
  const Environment environment = session_.environment();
  for (Baseline& baseline : race.baselines) {
    baseline.problem = session_.problem;
    baseline.gpu = session_.gpu;
    baseline.environment = environment;
    session_.context.database.add(baseline);
  }
  const bool any_ok = std::any_of(race.finalists.begin(), race.finalists.end(),
                                  [](const Evaluation& e) { return e.outcome == Outcome::ok; });
  const bool raced = any_ok || (finalists.size() == 1 && !race.finalists.front().transient);
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (race.finalists[i].transient) continue;  // its record stays unchanged
    if (!raced && race.finalists[i].outcome != Outcome::wrong_result) continue;
    Record& record = finalists[i];
    record.measurement = race.finalists[i].measurement;
    record.environment = environment;
    session_.note_outcome(record, race.finalists[i]);
  }
  if (raced) {  // a finalist with a fault has no time to compare
    std::size_t i = 0;
    std::erase_if(finalists, [&](const Record&) { return race.finalists[i++].transient; });
  }
  return raced;
}

void Race::keep_images(const std::vector<Record>& records, const std::vector<Built>& built) {
  for (const Record& record : records)
    for (const Image& image : find_built(built, record.candidate)->images)
      session_.context.database.put_image(image, record.id);
}

}  // namespace tilewise
