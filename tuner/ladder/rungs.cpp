#include "tuner/ladder/rungs.hpp"

#include <algorithm>
#include <chrono>

#include "matmul/build.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/sampler.hpp"

namespace tilewise {
namespace {

constexpr double kLongestCpuSeconds = 10;
constexpr std::int64_t kCpuProbeRows = 192;  // rows per block of the product

std::vector<float> values_of(const Reference& reference, DataSet set, DataOf operand) {
  const TestData data = reference.data(set, operand);
  std::vector<float> values(static_cast<std::size_t>(data.rows() * data.columns()));
  data.fill_all(values.data(), 0);
  return values;
}

/// Operands and result of the product on the CPU.
struct CpuProduct {
  CpuProduct(const Problem& asked, const Reference& reference, DataSet set)
      : problem(asked),
        a(values_of(reference, set, DataOf::a)),
        b(values_of(reference, set, DataOf::b)),
        c(static_cast<std::size_t>(asked.m * asked.n)) {}
  /// Seconds for the first `rows` rows of C; A is not transposed.
  double compute(std::int64_t rows) {
    const auto begin = std::chrono::steady_clock::now();
    reference_multiply(layout_of(problem), rows, problem.n, problem.k, 1, a.data(),
                       min_lda(problem), b.data(), min_ldb(problem), 0, c.data(), min_ldc(problem));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  const Problem& problem;
  std::vector<float> a, b, c;
};

Measurement clocked(double seconds) {
  const double microseconds = 1e6 * seconds;
  Measurement measurement = measurement_of({&microseconds, 1});
  measurement.launches_per_sample = 1;
  measurement.cold = false;
  measurement.method = "clock";
  return measurement;
}

/// Computes the whole product on both data sets; times the bounded one.
void compute_all(Rung& rung, const Problem& problem, const Reference& reference) {
  for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
    CpuProduct product(problem, reference, set);
    rung.measurement = clocked(product.compute(problem.m));
    const Comparison found = reference.compare(set, {1, 0}, product.c.data(), min_ldc(problem));
    rung.error_ratio = std::max(rung.error_ratio.value_or(0), found.error_ratio);
    if (set == DataSet::bounded) rung.normwise_error = found.normwise_error;
    if (found.ok) continue;
    rung.outcome = Outcome::wrong_result;
    rung.detail = found.worst;
    rung.measurement.reset();
    return;
  }
}

void fail(Rung& rung, Outcome outcome, const std::string& why) {
  rung.outcome = outcome;
  rung.detail = why.substr(0, why.find('\n'));
  rung.measurement.reset();
}

void take(Rung& rung, const Evaluation& found) {
  rung.measurement = found.measurement;
  if (found.outcome == Outcome::ok || found.outcome == Outcome::wrong_result)
    rung.error_ratio = found.error_ratio;
  if (found.outcome == Outcome::ok) rung.normwise_error = found.normwise_error;
  if (found.outcome != Outcome::ok) fail(rung, found.outcome, found.detail);
}

}  // namespace

const std::vector<KernelRung>& kernel_rungs() {
  static const std::vector<KernelRung> rungs = {
      {"naive", "one thread an element, straight from global memory", "naive", {{"UNROLL", 1}}},
      {"tiled, B uncoalesced",
       "square tiles in shared memory; B is read down its columns",
       "tiled",
       {{"READ_B", 0}, {"UNROLL", 1}}},
      {"tiled, bank conflicts",
       "B is read along its rows, and held transposed: banks collide",
       "tiled",
       {{"READ_B", 1}, {"UNROLL", 1}}},
      {"tiled, conflict-free",
       "B is held as the inner loop reads it",
       "tiled",
       {{"READ_B", 2}, {"UNROLL", 1}}},
      {"outer product",
       "a tile of C in each thread's registers",
       "simt",
       {{"PREFETCH", 0}, {"UNROLL", 1}}},
      {"unrolled", "the loop over the tile's k is unrolled", "simt", {{"PREFETCH", 0}}},
      {"prefetch", "the next tile is fetched while this one is used", "simt", {{"PREFETCH", 2}}},
  };
  return rungs;
}

Candidate candidate_of(const KernelRung& rung, const Problem& problem, const DeviceInfo& info) {
  const KernelTemplate& kernel = find_template(rung.kernel_template);
  Candidate candidate{kernel.name, kernel.default_configuration(problem, info)};
  for (const auto& [name, value] : rung.changed) candidate.configuration.set(name, value);
  return candidate;
}

Rung measure_cpu(const Problem& problem, const Reference& reference) {
  Rung rung;
  rung.name = "cpu";
  rung.arithmetic = "f64";
  rung.what = "our reference in f64, on all cores";
  const std::int64_t probe = std::min(problem.m, kCpuProbeRows);
  double row_seconds = 0;
  {
    CpuProduct product(problem, reference, DataSet::bounded);
    product.compute(1);  // wakes idle cores
    row_seconds = product.compute(probe) / static_cast<double>(probe);
  }
  const double seconds = row_seconds * static_cast<double>(problem.m);
  if (seconds <= kLongestCpuSeconds) {
    compute_all(rung, problem, reference);
    return rung;
  }
  rung.measurement = clocked(seconds);
  rung.detail = "scaled from " + std::to_string(probe) + " of " + std::to_string(problem.m) +
                " rows, not compared";
  return rung;
}

Rung measure_candidate(Rung rung, const Problem& problem, const DeviceInfo& info,
                       const ImageStore& images, LocalEvaluator& evaluator) {
  try {
    const Trial trial = try_candidate(problem, *rung.candidate, info, images, evaluator);
    const Work work = plan_of(*rung.candidate, problem, info).work;
    if (work.flops > 0) rung.bytes_per_flop = work.global_bytes / work.flops;
    take(rung, trial.evaluation);
  } catch (const Error& error) {
    if (evaluator.broken() || error.kind() == ErrorKind::database) throw;
    fail(rung, error.kind() == ErrorKind::compiler ? Outcome::compile_error : Outcome::launch_error,
         error.what());
  }
  return rung;
}

Rung measure_library(const Problem& problem, BaselineLibrary& library, LocalEvaluator& evaluator) {
  Rung rung;
  rung.name = library.name();
  rung.what = "version " + library.version() + ", its default call, strict f32";
  take(rung,
       evaluator.evaluate_enqueued([&](const Call& call) { library.multiply(problem, call); }));
  return rung;
}

}  // namespace tilewise
