#include <algorithm>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/crown.hpp"
#include "tuner/tuning.hpp"

// The end of a search: finalists side by side, the winner, the images that stay.
namespace tilewise {
namespace {

// Where all finalists turn out to be wrong, so often in all.
constexpr int kMostRaces = 5;
// How long to wait for a compile before looking at Ctrl-C again.
constexpr auto kPatience = std::chrono::milliseconds(50);

const Built* find_built(const std::vector<Built>& all, const Candidate& candidate) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Built& b) { return b.candidate == candidate; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Built> Tuning::build_all(const std::vector<Record>& records) {
  CompileAhead pool(problem_, device_, store_, options_.compile_threads);
  for (const Record& record : records) pool.add(record.candidate, *kernel_of(record.candidate));
  std::vector<Built> all;
  while (pool.under_way() > 0 && !stopped())
    if (std::optional<Built> built = pool.take(kPatience)) {
      if (built->compiled) ++result_.compiled;
      const bool whole = !built->missing && !built->stopped && built->fault.empty();
      if (whole && built->refusal.empty()) all.push_back(std::move(*built));
    }
  return all;
}

void Tuning::race() {
  end_compiling();
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
  std::vector<Record> racing = finalists;
  std::erase_if(racing, [&](const Record& r) { return !find_built(built, r.candidate); });
  const bool raced = !result_.interrupted && !racing.empty() && measure_again(racing, built);
  const bool any_wrong = forget_wrong(racing);
  if (raced) finalists = racing;
  const Record* winner = winner_of(finalists, raced, any_wrong);
  keep_images(racing, built);
  if (!winner) return any_wrong;
  const auto stored = context_.database.winner(problem_, gpu_);
  if (!stored || stored->record.id != winner->id || !stored->quarantined.empty())
    context_.database.set_winner(winner->id);
  return false;
}

/// The winner of the race. Without one (interrupted, or the evaluator failed), the best of the
/// search where nothing is served yet, or where what is served was measured in it and is slower.
const Record* Tuning::winner_of(const std::vector<Record>& finalists, bool raced,
                                bool any_wrong) const {
  if (raced) return crown(finalists, incumbent_);
  if (any_wrong) return nullptr;
  if (!incumbent_) return &finalists.front();
  const bool measured = std::any_of(finalists.begin(), finalists.end(),
                                    [this](const Record& r) { return r.candidate == incumbent_; });
  return measured && !result_.interrupted ? crown(finalists, incumbent_) : nullptr;
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

/// Once more where a fault of the system ended it; where that happens twice, there is no race.
RaceResult Tuning::run_race(const std::vector<EvaluationRequest>& requests) {
  RaceResult race;
  std::optional<Error> failure;
  for (int tries = 0; tries < 2; ++tries) {
    failure.reset();
    try {
      race = context_.evaluator.race(requests, true);
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
  if (failure && !result_.failure) result_.failure = failure;
  return race;
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
  RaceResult race = run_race(requests);
  if (race.finalists.size() != finalists.size())
    throw Error(ErrorKind::device, "a race of " + std::to_string(finalists.size()) +
                                       " finalists came back with " +
                                       std::to_string(race.finalists.size()) + " results");
  // Before anything is stored: where that fails, none of these is named as the winner.
  for (std::size_t i = 0; i < finalists.size(); ++i)
    if (race.finalists[i].outcome == Outcome::wrong_result && !race.finalists[i].transient)
      std::erase_if(known_, [&](const Record& r) { return r.candidate == finalists[i].candidate; });
  for (Baseline& baseline : race.baselines) {
    baseline.problem = problem_;
    baseline.gpu = gpu_;
    baseline.environment = environment();
    context_.database.add(baseline);
  }
  const bool any_ok = std::any_of(race.finalists.begin(), race.finalists.end(),
                                  [](const Evaluation& e) { return e.outcome == Outcome::ok; });
  const bool raced = any_ok || (finalists.size() == 1 && !race.finalists.front().transient);
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (race.finalists[i].transient) continue;  // its record stays as it is
    if (!raced && race.finalists[i].outcome != Outcome::wrong_result) continue;
    Record& record = finalists[i];
    record.outcome = race.finalists[i].outcome;
    record.detail = race.finalists[i].detail;
    if (record.outcome != Outcome::ok) record.detail += how_to_reproduce(record.candidate);
    record.measurement = race.finalists[i].measurement;
    record.environment = environment();
    record.id = context_.database.add(record);
  }
  if (raced) {  // who was kept from it by a fault has no time to compare
    std::size_t i = 0;
    std::erase_if(finalists, [&](const Record&) { return race.finalists[i++].transient; });
  }
  return raced;
}

void Tuning::keep_images(const std::vector<Record>& records, const std::vector<Built>& built) {
  for (const Record& record : records)
    for (const Image& image : find_built(built, record.candidate)->images)
      context_.database.put_image(image, record.id);
}

}  // namespace tilewise
