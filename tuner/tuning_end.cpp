// The end of a run of tune(): evaluations as records, race, general form, result.
#include <algorithm>
#include <iterator>
#include <utility>

#include "templates/cost_model.hpp"
#include "tilewise/error.hpp"
#include "tuner/confirm.hpp"
#include "tuner/evaluate/sampler.hpp"
#include "tuner/race.hpp"
#include "tuner/search/search_memory.hpp"
#include "tuner/tuning.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

/// The candidate without its size as constants; empty where it has none.
std::optional<Candidate> general_form(Candidate candidate, const KernelTemplate& kernel) {
  const std::string& specialises = kernel.specialises;
  if (specialises.empty() || candidate.configuration.at(specialises) == 0) return std::nullopt;
  candidate.configuration.set(specialises, 0);
  return candidate;
}

}  // namespace

Record with_evaluation(Record record, const Evaluation& evaluation) {
  record.outcome = evaluation.outcome;
  record.detail = evaluation.detail;
  record.measurement = evaluation.measurement;
  record.usage = evaluation.usage;
  record.error_ratio = evaluation.error_ratio;
  record.normwise_error = evaluation.normwise_error;
  return record;
}

/// Ends the work of further devices, and commits what they have measured.
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
  Race(session_).run();
  if (!session_.stopped() && !session_.result.failure) keep_general();
}

/// Beside a winner that is specialised on its size: measures the form that serves other sizes, and
/// keeps its images.
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
