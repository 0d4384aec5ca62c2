#include "tuner/ladder/ladder.hpp"

#include <algorithm>
#include <utility>

#include "device/machines.hpp"

namespace tilewise {
namespace {

constexpr double kLeastModeSeconds = 5;  // per tensor-core mode; at least budget / 4

/// A tuned rung and its problem.
struct TunedRung {
  Problem problem;
  Rung rung;
};

bool stopped(const LadderContext& context) { return context.stop && context.stop->load(); }

std::optional<Candidate> stored_winner(const Problem& problem, const LadderContext& context) {
  const auto winner = context.database.winner(problem, gpu_key(context.info));
  if (!winner || !winner->quarantined.empty()) return std::nullopt;
  return winner->record.candidate;
}

/// The rung of a problem's winner; tunes first if no winner is stored.
Rung tuned_rung(const Problem& problem, const std::string& name, const std::string& how,
                double budget_seconds, const LadderContext& context) {
  Rung rung;
  rung.name = name;
  if (problem.math != MathMode::strict) rung.arithmetic = to_string(problem.math);
  rung.what = "the stored winner, " + how;
  rung.candidate = stored_winner(problem, context);
  if (rung.candidate) return rung;
  rung.what = "the winner, tuned just now, " + how;
  const TuneResult result = context.tune(problem, budget_seconds);
  if (!result.stored) throw Error(*result.failure);
  if (result.winner) {
    rung.candidate = result.winner->record.candidate;
  } else {
    rung.outcome = Outcome::timeout;
    rung.detail = result.failure ? result.failure->what()
                                 : "no valid candidate was found within the budget (--budget)";
  }
  return rung;
}

/// The winner of strict f32, then the winners of the tensor-core modes for f32 on this device.
std::vector<TunedRung> tuned_rungs(const Problem& strict, const LadderContext& context) {
  const double budget = context.budget_seconds;
  std::vector<TunedRung> all;
  all.push_back({strict, tuned_rung(strict, "tuned", "strict fp32", budget, context)});
  for (const auto& [math, how] : {std::pair{MathMode::tf32, "operands rounded to 11 bits"},
                                  std::pair{MathMode::f32x3, "operands in two parts of 11 bits"}}) {
    Problem problem = strict;
    problem.math = math;
    const bool there = std::any_of(
        catalog().begin(), catalog().end(),
        [&](const KernelTemplate& kernel) { return kernel.supports(problem, context.info); });
    if (!there || stopped(context)) continue;
    const double seconds = std::max(budget / 4, std::min(budget, kLeastModeSeconds));
    all.push_back({problem, tuned_rung(problem, "tuned, " + std::string(to_string(math)),
                                       std::string("tensor cores, ") + how, seconds, context)});
  }
  return all;
}

/// Measures every rung in order, until stopped.
void climb(const std::vector<TunedRung>& tuned, const LadderContext& context, Ladder& ladder) {
  const Problem& problem = ladder.problem;
  context.progress("reference");
  const auto reference = std::make_shared<const Reference>(Reference::compute(problem));
  const auto add = [&](const std::string& name, const std::function<Rung()>& measure) {
    if (stopped(context)) return;
    context.progress("rung " + std::to_string(ladder.rungs.size() + 1) + ", " + name);
    ladder.rungs.push_back(measure());
  };
  add("cpu", [&] { return measure_cpu(problem, *reference); });

  const std::unique_ptr<Device> device = open_device(context.device);
  const std::unique_ptr<BaselineLibrary> library = load_baseline(*device);
  LocalEvaluator evaluator(*device, {}, context.timing);
  const DeviceInfo info = evaluator.device_info();
  const ImageStore images(&context.database, context.cache, context.compiler);
  evaluator.begin(problem, reference);
  const auto measured = [&](const Problem& of, const Rung& rung) {
    return rung.candidate ? measure_candidate(rung, of, info, images, evaluator) : rung;
  };
  for (const KernelRung& kernel : kernel_rungs()) {
    Rung rung;
    rung.name = kernel.name;
    rung.what = kernel.what;
    rung.candidate = candidate_of(kernel, problem, info);
    add(rung.name, [&] { return measured(problem, rung); });
  }
  for (const TunedRung& each : tuned)
    add(each.rung.name, [&] {
      if (each.problem != problem)
        evaluator.begin(each.problem,
                        std::make_shared<const Reference>(Reference::compute(each.problem)));
      return measured(each.problem, each.rung);
    });
  if (!library || !library->supports(problem)) return;
  add(library->name(), [&] {
    evaluator.begin(problem, reference);
    return measure_library(problem, *library, evaluator);
  });
}

}  // namespace

Ladder measure_ladder(const Problem& problem, const LadderContext& context) {
  const std::vector<TunedRung> tuned = tuned_rungs(problem, context);
  Ladder ladder;
  ladder.device = context.info;
  ladder.problem = problem;
  ladder.cold = context.timing.cold;
  climb(tuned, context, ladder);
  ladder.interrupted = stopped(context);
  return ladder;
}

double tflops_of(const Ladder& ladder, const Rung& rung) {
  return rung.measurement ? tflops_of(ladder.problem, rung.measurement->median_us) : 0;
}

double peak_tflops(const Ladder& ladder) { return peak_flops(ladder.device) * 1e-12; }

std::optional<std::size_t> rung_before(const Ladder& ladder, std::size_t index) {
  const Rung& rung = ladder.rungs[index];
  if (!(tflops_of(ladder, rung) > 0)) return std::nullopt;
  for (std::size_t before = index; before-- > 0;) {
    const Rung& other = ladder.rungs[before];
    if (other.arithmetic == rung.arithmetic && tflops_of(ladder, other) > 0) return before;
  }
  return std::nullopt;
}

double times_before(const Ladder& ladder, std::size_t index) {
  const auto before = rung_before(ladder, index);
  if (!before) return 0;
  return tflops_of(ladder, ladder.rungs[index]) / tflops_of(ladder, ladder.rungs[*before]);
}

double share_of_peak(const Ladder& ladder, const Rung& rung) {
  const double peak = peak_tflops(ladder);
  return peak > 0 && rung.arithmetic == "f32" ? tflops_of(ladder, rung) / peak : 0;
}

}  // namespace tilewise
