#include "drop_in/decision.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "api/matmul_parts.hpp"
#include "db/database.hpp"
#include "device/cuda/cublas_terms.hpp"
#include "device/machines.hpp"
#include "matmul/prediction.hpp"
#include "matmul/resolution.hpp"
#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/once.hpp"

namespace tilewise::drop_in {
namespace {

// Our time over that of cuBLAS must be below this: measured, and expected.
constexpr double kMeasured = 0.99, kExpected = 0.9;
// The largest distance of the nearest measured problem, in log2 of the sizes, from which a time of
// cuBLAS is predicted.
constexpr double kNear = 1;

MatmulOptions options_of(const std::string& device, const Settings& settings) {
  MatmulOptions options;
  options.device = device;
  // No call of an application may wait for a compiler, unless it must be answered.
  options.compile_missing = settings.always || settings.invariant;
  // An application's output is its own, unless it asked for equal bits: a warning may be of others.
  if (!settings.invariant) options.warn = [](const std::string&) {};
  return options;
}

/// Empty without one. By a path from the root: the application may change its folder.
std::optional<Database> open_database() {
  return Database::open_if_any(absolute_path(default_database_path()));
}

/// Keeps layout, sizes, batch and types only.
Problem key_of(const Problem& problem) {
  Problem key;
  set_layout(key, layout_of(problem));
  key.m = problem.m, key.n = problem.n, key.k = problem.k, key.batch = problem.batch;
  key.a.type = problem.a.type, key.b.type = problem.b.type, key.c.type = problem.c.type;
  return key;
}

}  // namespace

Products::Products(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) keys_.insert(key_of(problem));
}

bool Products::may_have(const Gemm& gemm) const {
  const std::optional<DType> a = cuda::type_of_blas(gemm.b.type),
                             b = cuda::type_of_blas(gemm.a.type),
                             c = cuda::type_of_blas(gemm.c.type);
  if (!a || !b || !c) return false;
  Problem key;
  set_layout(key, layout_of(gemm));
  key.m = gemm.n, key.n = gemm.m, key.k = gemm.k, key.batch = gemm.batch;
  key.a.type = *a, key.b.type = *b, key.c.type = *c;
  return keys_.contains(key);
}

std::optional<Products> products_to_answer(const Settings& settings,
                                           std::optional<Database>& database) noexcept {
  if (settings.predict || settings.always || settings.invariant || !settings.report.empty() ||
      !settings.record.empty())
    return std::nullopt;
  try {
    std::vector<Problem> problems;
    if (settings.on) database = open_database();
    if (database) problems = database->problems_faster_than_baselines(kMeasured);
    return std::optional<Products>(std::in_place, problems);
  } catch (const std::exception&) {  // the first product that is checked reports the error
    return std::nullopt;
  }
}

/// The database's contents when the device was first used.
struct Answerer::Stored {
  explicit Stored(const std::string& which)
      : opened(open_device(which)), device(opened.get()), gpu(gpu_key(device->info())) {}
  std::unique_ptr<Device> opened;  ///< until the Matmul takes it
  Device* device;
  std::string gpu;
  std::optional<Database> database;
  Once all_read;
  std::vector<Baseline> all;  ///< all baselines of the GPU, for predictions
};

Answerer::Answerer(const std::string& device, const Settings& settings,
                   std::optional<Database>& database)
    : stored_(std::make_unique<Stored>(device)),
      predict_(settings.predict),
      always_(settings.always || settings.invariant) {
  // A process that only records needs no database, and goes on beside a damaged one.
  if (!database && settings.record.empty()) database = open_database();
  stored_->database = database;
  if (database || always_)
    matmul_ = std::make_unique<Matmul>(
        make_matmul(parts_for(std::move(stored_->opened), options_of(device, settings), database)));
}
Answerer::~Answerer() = default;

Device& Answerer::device() { return *stored_->device; }

Decision Answerer::decide(const Problem& problem) {
  Decision decision{.why = Why::none};
  if (!always_) {
    if (!stored_->database) return {};
    decision = by_records(problem);
    if (predict_ && (decision.why == Why::untuned || decision.why == Why::unmeasured))
      decision = by_prediction(problem);
    if (decision.why != Why::none) return decision;
  }
  const Candidate chosen = resolution_of(*matmul_, problem).candidate;
  try {
    matmul_->prepare(problem);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::compiler) throw;
    decision.why = Why::unloaded;
    return decision;
  }
  // If an image is missing, another kernel serves the problem, and its time is not the one above.
  const Candidate serving = resolution_of(*matmul_, problem).candidate;
  if (!always_ && serving != chosen) decision.why = Why::unloaded;
  decision.workspace = plan_of(serving, problem, stored_->device->info()).workspace_bytes;
  return decision;
}

Decision Answerer::by_records(const Problem& problem) {
  Decision decision;
  const std::optional<Winner> winner = stored_->database->winner(problem, stored_->gpu);
  if (!winner || !winner->quarantined.empty() || !winner->record.measurement ||
      winner->record.origin != Origin::measured ||
      resolution_of(*matmul_, problem).kind != MatchKind::exact)
    return decision;
  decision.ours = winner->record.measurement->median_us;
  decision.cublas = fastest_us(stored_->database->baselines(problem, stored_->gpu));
  decision.why = decision.cublas == 0                          ? Why::unmeasured
                 : decision.ours < kMeasured * decision.cublas ? Why::none
                                                               : Why::slower;
  return decision;
}

/// The expected time of cuBLAS is its time for the nearest problem of the same layout, alignment
/// and epilogue that has a winner, scaled as the cost model scales that winner from one problem to
/// the other.
Decision Answerer::by_prediction(const Problem& problem) {
  stored_->all_read.call([this] { stored_->all = stored_->database->baselines({}, stored_->gpu); });
  Decision decision;
  const Baseline* nearest = nullptr;
  double least = kNear;
  for (const Baseline& baseline : stored_->all) {
    const Problem& other = baseline.problem;
    if (!same_types(other, problem) || layout_of(other) != layout_of(problem) ||
        alignment_of(other) != alignment_of(problem) || other.epilogue != problem.epilogue ||
        !(baseline.measurement.median_us > 0))
      continue;
    const double distance = distance_between(other, problem);
    const bool same = nearest && other == nearest->problem;
    const bool faster = same && baseline.measurement.median_us < nearest->measurement.median_us;
    if (!(distance < least || (!nearest && distance <= least) || faster)) continue;
    least = distance;
    nearest = &baseline;
  }
  if (!nearest) return decision;
  decision.why = Why::unmeasured;
  const std::optional<Winner> winner = stored_->database->winner(nearest->problem, stored_->gpu);
  if (!winner) return decision;
  const DeviceInfo& info = stored_->device->info();
  const std::optional<Candidate> form = form_for(winner->record, problem, info);
  if (!form) return decision;
  const double there = cost_of(winner->record.candidate, nearest->problem, info).seconds;
  const double here = cost_of(*form, problem, info).seconds;
  const double ours = resolution_of(*matmul_, problem).predicted_us;
  if (!(there > 0) || !(here > 0) || !(ours > 0)) return decision;
  decision.predicted = true;
  decision.ours = ours;
  decision.cublas = nearest->measurement.median_us * here / there;
  decision.why = decision.ours < kExpected * decision.cublas ? Why::none : Why::slower;
  return decision;
}

}  // namespace tilewise::drop_in
