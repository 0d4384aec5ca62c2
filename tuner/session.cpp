#include "tuner/session.hpp"

#include <algorithm>
#include <chrono>

#include "tilewise/error.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/reproduce.hpp"
#include "tuner/search/search_memory.hpp"
#include "tuner/stored_measurements.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {
namespace {

const Problem& checked(const Problem& problem, const TuneOptions& options) {
  if (problem.m < 1 || problem.n < 1 || problem.k < 1 || problem.batch < 1)
    throw Error(ErrorKind::invalid_argument,
                "nothing to tune in " + to_string(problem) + ": every size must be at least 1");
  check_grouping(problem);
  if (problem.grouping == Grouping::counts)
    throw Error(ErrorKind::invalid_argument,
                "nothing is measured for " + to_string(problem) +
                    ": products grouped by counts are served by what was tuned for products "
                    "grouped by rows");
  if (problem.order == kept_order())
    throw Error(ErrorKind::invalid_argument,
                "no order was chosen for " + to_string(problem) + " before its search");
  if (!(options.budget_seconds > 0))
    throw Error(ErrorKind::invalid_argument, "the budget must be more than 0 seconds");
  return problem;
}

}  // namespace

double TuneContext::now() const {
  if (clock) return clock();
  return std::chrono::duration<double>(BudgetClock::now().time_since_epoch()).count();
}

Session::Session(const Problem& asked, const TuneOptions& tune_options, TuneContext& tune_context)
    : problem(checked(asked, tune_options)),
      options(tune_options),
      context(tune_context),
      started(tune_context.now()),
      device(tune_context.evaluator.device_info()),
      gpu(gpu_key(device)),
      space(asked, device, options.templates.empty() ? select_templates() : options.templates,
            options.subspace),
      store(&context.database, context.cache, context.compiler) {
  if (objective_info(options.objective).needs_energy && !context.evaluator.measures_energy())
    throw no_energy(device.name, options.objective);
}

const Record* Session::best() const {
  const auto found = std::min_element(known.begin(), known.end(), faster);
  return found == known.end() ? nullptr : &*found;
}

double Session::best_us() const { return best() ? time_of(*best()) : 0; }

const KernelTemplate* Session::kernel_of(const Candidate& candidate) const {
  return template_of(candidate, space);
}

Environment Session::environment() const {
  return {context.evaluator.driver_version(), context.compiler ? context.compiler->version() : "",
          host_name(), now_text()};
}

std::string Session::how_to_reproduce(const Candidate& candidate) const {
  if (options.reproduce.empty()) return "";
  return "\nreproduce: " + reproduce_command(options.reproduce, candidate);
}

void Session::note_outcome(Record& record, const Evaluation& found) {
  record.outcome = found.outcome;
  record.detail = found.detail;
  if (record.outcome != Outcome::ok) record.detail += how_to_reproduce(record.candidate);
  record.id = context.database.add(record);
  if (record.outcome == Outcome::wrong_result) result.wrong.push_back(record);
}

void Session::report(const std::string& phase, const Record* last) const {
  if (!context.progress) return;
  TuneProgress progress;
  progress.problem = &problem;
  progress.phase = phase;
  progress.evaluated = result.evaluated;
  progress.rejected = result.rejected;
  progress.compiled = result.compiled;
  progress.reused = result.reused;
  progress.seconds = seconds();
  progress.budget_seconds = options.budget_seconds;
  progress.lock_seconds = lock_seconds();
  if (best()) progress.best = *best();
  progress.last = last;
  context.progress(progress);
}

}  // namespace tilewise
