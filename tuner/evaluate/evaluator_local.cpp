#include "tuner/evaluate/evaluator_local.hpp"

#include <algorithm>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {
namespace {

// The usable share of free device memory; the rest is for candidates' workspaces (packed operands)
// and the driver.
constexpr double kUsableShare = 0.75;
// The largest share of free memory for stored correct results; it is released when a candidate
// needs it.
constexpr double kKeptShare = 0.25;

std::string mebibytes(std::int64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

Enqueue launches_of(const Executable& executable) {
  return [&executable](const Call& call) { executable.launch(call); };
}

ResourceUsage multiply_usage(const Executable& executable) {
  const LaunchStep* multiply = multiply_step(executable.plan());
  if (!multiply) return {};
  return executable.usage()[static_cast<std::size_t>(multiply - executable.plan().steps.data())];
}

// The outcome of finalists that were not raced because another one broke the device.
void fail_beside(Evaluation& evaluation, const std::string& why) {
  if (evaluation.outcome != Outcome::ok && !evaluation.detail.empty()) return;
  evaluation.outcome = Outcome::launch_error;
  evaluation.detail = "not raced: the device failed on another finalist: " + why;
}

}  // namespace

LocalEvaluator::LocalEvaluator(Device& device, std::vector<BaselineLibrary*> baselines,
                               const TimingOptions& timing)
    : device_(device), baselines_(std::move(baselines)), timing_(timing), stream_(device) {}

void LocalEvaluator::require_working() const {
  if (broken()) {
    throw Error(ErrorKind::device, "the device is unusable in this process since: " + broken_);
  }
}

void LocalEvaluator::begin(const Problem& problem, std::shared_ptr<const Reference> reference) {
  require_working();
  if (problem.m <= 0 || problem.n <= 0) {
    throw Error(ErrorKind::invalid_argument,
                "there is nothing to measure: C is " + size_text(problem) + " (MxNxK), empty");
  }
  bench_ = {};  // frees its memory before the next one's buffers are allocated
  problem_ = problem;
  bench_ = make_bench(problem, reference);
}

// Where memory allows: all data sets resident, all buffer sets, and stored correct results in the
// rest. Otherwise the data are uploaded for each run and there are fewer sets; at least one set of
// A, B and C is on the device.
LocalEvaluator::Bench LocalEvaluator::make_bench(
    const Problem& problem, const std::shared_ptr<const Reference>& reference) {
  const std::int64_t minimal = Validator::minimal_bytes(problem);
  const std::int64_t resident = Validator::resident_bytes(problem);
  const std::int64_t set = TimingBuffers::set_bytes(problem);
  const std::int64_t wanted = TimingBuffers::sets_wanted(problem, device_.info(), timing_.cold);
  const DeviceStatus status = device_.status();
  const std::int64_t free =
      status.total_bytes > 0 ? status.free_bytes : device_.info().memory_bytes;
  if (minimal > free) {
    throw Error(ErrorKind::out_of_memory,
                to_string(problem) + ": A, B and C with their guards need " + mebibytes(minimal) +
                    " on the device, " + mebibytes(free) + " are free");
  }
  const std::int64_t others = device_.info().target.host ? kBesideCandidatesBytes : 0;
  const auto usable =
      std::min(static_cast<std::int64_t>(kUsableShare * static_cast<double>(free)), free - others);
  const bool all = resident + set <= usable;
  const std::int64_t rest = std::max<std::int64_t>(0, usable - (all ? resident : minimal));
  const std::int64_t sets =
      std::clamp<std::int64_t>(rest / std::max<std::int64_t>(1, set), 0, wanted);
  Bench bench;
  const auto kept = static_cast<std::int64_t>(kKeptShare * static_cast<double>(free));
  const std::int64_t spare = all ? std::min(rest - sets * set, kept) : 0;
  bench.validator = std::make_unique<Validator>(device_, stream_.get(), reference, all, spare);
  bench.buffers = sets > 0
                      ? std::make_unique<TimingBuffers>(device_, stream_.get(), *reference, sets)
                      : std::make_unique<TimingBuffers>(bench.validator->timing_call());
  bench.benchmark =
      std::make_unique<Benchmark>(device_, stream_.get(), problem, *bench.buffers, timing_);
  return bench;
}

// A refused launch leaves the device usable; an illegal address does not.
void LocalEvaluator::note_failure(const Error& error, Evaluation& evaluation) {
  evaluation.outcome = Outcome::launch_error;
  evaluation.detail = error.what();
  evaluation.transient = is_transient(error.kind());
  evaluation.measurement.reset();
  try {
    device_.synchronize(stream_.get());
    device_.synchronize(nullptr);
  } catch (const Error&) {
    broken_ = evaluation.detail;
  }
}

void LocalEvaluator::validate(const Enqueue& enqueue, Evaluation& evaluation) {
  const Verdict verdict = bench_.validator->validate(enqueue);
  evaluation.outcome = verdict.outcome;
  evaluation.detail = verdict.detail;
  evaluation.error_ratio = verdict.error_ratio;
  evaluation.normwise_error = verdict.normwise_error;
}

// Null when the candidate was rejected; `evaluation` holds the reason.
std::unique_ptr<Executable> LocalEvaluator::load_and_validate(const EvaluationRequest& request,
                                                              Evaluation& evaluation) {
  try {
    auto executable = std::make_unique<Executable>(device_, problem_, request.plan, request.images);
    evaluation.usage = multiply_usage(*executable);
    validate(launches_of(*executable), evaluation);
    if (evaluation.outcome == Outcome::ok) return executable;
  } catch (const Error& error) {
    note_failure(error, evaluation);
    if (error.kind() == ErrorKind::out_of_memory && !broken() &&
        bench_.validator->give_back_spare()) {
      return load_and_validate(request, evaluation);
    }
  }
  return nullptr;
}

// Without memory for that size the candidate is not pressed: Evaluation::pressed stays 0.
bool LocalEvaluator::press_at(const OtherSize& size, const std::vector<Image>& images,
                              Evaluation& evaluation) {
  try {
    const Executable executable(device_, size.problem, size.plan, images_of(size.plan, images));
    const Repeated found = press(device_, stream_.get(), size.problem, launches_of(executable));
    evaluation.pressed = found.launches;
    if (found.wrong == 0) return true;
    evaluation.outcome = Outcome::wrong_result;
    evaluation.detail = "not the same each time at " + size_text(size.problem) + ": launch " +
                        std::to_string(found.first_wrong) + " left other bits in C";
    return false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return !bench_.validator->give_back_spare() || press_at(size, images, evaluation);
  }
}

// Whether the kernel gives the same bits in every launch.
bool LocalEvaluator::withstands(const EvaluationRequest& request, const Executable& executable,
                                Evaluation& evaluation) {
  if (!(request.observe_seconds > 0)) return true;
  try {
    if (request.press && !press_at(*request.press, request.images, evaluation)) return false;
    const Verdict verdict = bench_.validator->observe(launches_of(executable),
                                                      request.observe_seconds, evaluation.observed);
    if (verdict.outcome == Outcome::ok) return true;
    evaluation.outcome = verdict.outcome;
    evaluation.detail = verdict.detail;
  } catch (const Error& error) {
    note_failure(error, evaluation);
    if (error.kind() == ErrorKind::out_of_memory && !broken() &&
        bench_.validator->give_back_spare()) {
      evaluation.outcome = Outcome::ok;
      evaluation.detail.clear();
      evaluation.transient = false;
      return withstands(request, executable, evaluation);
    }
  }
  return false;
}

Evaluation LocalEvaluator::evaluate(const EvaluationRequest& request) {
  require_working();
  if (!bench_.benchmark) throw Error(ErrorKind::invalid_argument, "evaluate() before begin()");
  Evaluation evaluation;
  const auto executable = load_and_validate(request, evaluation);
  if (!executable || !withstands(request, *executable, evaluation) || !request.timed)
    return evaluation;
  try {
    evaluation.measurement = bench_.benchmark->measure(launches_of(*executable), request.best_us);
  } catch (const Error& error) {
    note_failure(error, evaluation);
  }
  return evaluation;
}

Evaluation LocalEvaluator::evaluate_enqueued(const Enqueue& enqueue) {
  require_working();
  if (!bench_.benchmark) throw Error(ErrorKind::invalid_argument, "evaluate() before begin()");
  Evaluation evaluation;
  try {
    validate(enqueue, evaluation);
    if (evaluation.outcome == Outcome::ok)
      evaluation.measurement = bench_.benchmark->measure(enqueue, 0);
  } catch (const Error& error) {
    note_failure(error, evaluation);
  }
  return evaluation;
}

// Selects the fastest variant of a library by a glance at each. Skips a failing variant.
void LocalEvaluator::choose_fastest(BaselineLibrary& library) {
  const int ways = library.offer(problem_, bench_.buffers->calls());
  double best_us = 0;
  int best = ways == 1 ? 0 : -1;
  for (int way = 0; way < ways && ways > 1; ++way) {
    library.choose(way);
    try {
      const double us = bench_.benchmark->glance(
          [&](const Call& call) { library.multiply(problem_, call); }, best_us);
      if (best < 0 || us < best_us) best = way, best_us = us;
    } catch (const Error&) {
    }
  }
  if (best < 0) throw Error(ErrorKind::unsupported, library.name() + " offers no way that works");
  library.choose(best);
}

// Tries the library once, so that its failure does not end the finalists' race.
bool LocalEvaluator::takes_part(BaselineLibrary& library) {
  if (!library.supports(problem_)) return false;
  try {
    choose_fastest(library);
    library.multiply(problem_, bench_.buffers->calls().front());
    device_.synchronize(stream_.get());
    return true;
  } catch (const Error&) {
    return false;
  }
}

RaceResult LocalEvaluator::race(const std::vector<EvaluationRequest>& finalists,
                                bool with_baselines) {
  require_working();
  if (!bench_.benchmark) throw Error(ErrorKind::invalid_argument, "race() before begin()");
  RaceResult result;
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<Enqueue> contestants;
  std::vector<std::size_t> places;  // contestant -> finalist
  for (const EvaluationRequest& finalist : finalists) {
    Evaluation& evaluation = result.finalists.emplace_back();
    if (broken()) {
      fail_beside(evaluation, broken_);
      continue;
    }
    auto executable = load_and_validate(finalist, evaluation);
    if (!executable) continue;
    places.push_back(result.finalists.size() - 1);
    contestants.push_back(launches_of(*executable));
    executables.push_back(std::move(executable));
  }
  if (broken()) {
    for (const std::size_t place : places) fail_beside(result.finalists[place], broken_);
    return result;
  }
  if (contestants.empty()) return result;
  std::vector<BaselineLibrary*> others;
  for (BaselineLibrary* library : baselines_) {
    if (!with_baselines || !takes_part(*library)) continue;
    others.push_back(library);
    contestants.push_back([this, library](const Call& call) { library->multiply(problem_, call); });
  }
  try {
    const bool with_energy = std::any_of(finalists.begin(), finalists.end(),
                                         [](const EvaluationRequest& one) { return one.energy; });
    const std::vector<Raced> raced =
        bench_.benchmark->race(contestants, places.size(), with_energy);
    for (std::size_t i = 0; i < places.size(); ++i) {
      Evaluation& evaluation = result.finalists[places[i]];
      if (raced[i].wrong_round == 0) {
        evaluation.measurement = raced[i].measurement;
        continue;
      }
      evaluation.outcome = Outcome::wrong_result;
      evaluation.detail = "not the same each time: after round " +
                          std::to_string(raced[i].wrong_round) +
                          " of a race, results of equal operands had other bits";
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      Baseline& entry = result.baselines.emplace_back();
      entry.problem = problem_;
      entry.gpu = gpu_key(device_.info());
      entry.library = others[i]->name();
      entry.version = others[i]->version();
      entry.variant = others[i]->variant();
      entry.measurement = raced[places.size() + i].measurement;
    }
  } catch (const Error& error) {
    for (const std::size_t place : places) note_failure(error, result.finalists[place]);
  }
  return result;
}

std::unique_ptr<Evaluator> make_local_evaluator(Device& device,
                                                std::vector<BaselineLibrary*> baselines,
                                                const TimingOptions& timing) {
  return std::make_unique<LocalEvaluator>(device, std::move(baselines), timing);
}

std::vector<BaselineLibrary*> pointers_to(const BaselineLibraries& libraries) {
  std::vector<BaselineLibrary*> pointers;
  for (const auto& library : libraries) pointers.push_back(library.get());
  return pointers;
}

}  // namespace tilewise
