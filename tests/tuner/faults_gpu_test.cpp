// Twenty planted failures in one tuning run on a real GPU: each has its own outcome in the records,
// none ends the run, and the only right candidate wins.
#include <gtest/gtest.h>

#include <map>

#include "device/cuda/cuda.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/sources.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tuner/tuner.hpp"
#include "tuner/worker/worker.hpp"

namespace tilewise::faults_gpu_test {
namespace {

enum Fault {
  none,
  illegal_address,
  endless_loop,
  wrong_element,
  does_not_compile,
  too_many_threads,
  writes_before_c,
  changes_a,
  ignores_beta,
  trap,
  misaligned,
  faults
};

const char* kSource = R"(
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#if FAULT == 4
#error planted
#endif
KERNEL(256, 1) faulty(ARGUMENTS MultiplyArgs args) {
  const Tile tile = work_tile_of_block(args, 16, 16).tile;
  const Int64 row = tile.row + threadIdx.x / 16, column = tile.column + threadIdx.x % 16;
  if (FAULT == 1 && row == 3) *reinterpret_cast<float*>(0x10 + VARIANT * 64) = 1.0f;
  if (FAULT == 2)
    for (volatile int i = 0; i < 2 + VARIANT; i = 0) {
    }
  if (FAULT == 9 && row == 5) asm volatile("trap;");
  if (FAULT == 10) args.c[0] = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(args.a) + 2);
  if (row >= args.m || column >= args.n) return;
  float sum = 0.0f;
  for (Int64 k = 0; k < args.k; ++k)
    sum = multiply_add(args.a[row * args.lda + k], args.b[k * args.ldb + column], sum);
  Scalars scalars = scalars_of(args);
  if (FAULT == 8) scalars.beta = 0.0f;
  float* c = args.c + row * args.ldc + column;
  blend(scalars, sum, c, {row, column, 0});
  if (FAULT == 3 && row == args.m - 1 && column == args.n - 1) *c += 1.0f + VARIANT;
  if (FAULT == 6 && row == 0 && column == 0) args.c[-1 - VARIANT] = 0.0f;
  if (FAULT == 7 && row == 1 && column == 1) const_cast<float*>(args.a)[VARIANT] += 1.0f;
}
)";

KernelTemplate faulty_template() {
  KernelTemplate t;
  t.name = "faulty";
  t.summary = "planted failures";
  Parameter fault{"FAULT", {}, "which"};
  for (int f = none; f < faults; ++f) fault.values.push_back(f);
  t.parameters = {fault, {"VARIANT", {0, 1}, "of the fault"}};
  t.constraints = {{"one_right",
                    {"FAULT", "VARIANT"},
                    "the right one exists once",
                    [](const ConstraintInput& in) {
                      return in.configuration.at("FAULT") != none ||
                             in.configuration.at("VARIANT") == 0;
                    }}};
  t.supports = [](const Problem&, const DeviceInfo&) { return true; };
  t.plan = [](const Problem& problem, const Configuration& c, const DeviceInfo&) {
    MultiplyShape shape;
    shape.kernel = {
        "faulty.cu", "faulty", {{"FAULT", c.at("FAULT")}, {"VARIANT", c.at("VARIANT")}}};
    shape.tile_m = shape.tile_n = 16;
    shape.threads = c.at("FAULT") == too_many_threads ? 2048 : 256;
    return multiply_plan(problem, std::move(shape));
  };
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"FAULT", 0}, {"VARIANT", 0}};
  };
  return t;
}

TEST(FaultsGpu, TwentyPlantedFailuresAreRecordedAndNoneIsFatal) {
  std::unique_ptr<Compiler> compiler;
  try {
    (void)cuda::list_devices();
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  KernelSource source = kernel_source("naive.cu");  // for its headers
  source.name = "faulty.cu";
  source.text = kSource;
  add_kernel_source(source);
  const KernelTemplate faulty = faulty_template();

  WorkerOptions worker;
  worker.program = TILEWISE_AUTOTUNE;
  worker.timeout_seconds = 4;
  const auto evaluator = make_worker_evaluator(worker);
  Database database = Database::in_memory();
  TuneContext context{database, nullptr, compiler.get(), *evaluator, {}, nullptr};
  TuneOptions options;
  options.strategy = "exhaustive";
  options.templates = {&faulty};
  options.budget_seconds = 300;
  const Problem problem = test::make_problem(Layout::nn, 200, 120, 96);
  const TuneResult result = tune(problem, options, context);

  ASSERT_TRUE(result.winner.has_value());
  EXPECT_EQ(result.winner->record.candidate.configuration.at("FAULT"), none);
  const std::map<int, Outcome> expected = {
      {none, Outcome::ok},
      {illegal_address, Outcome::launch_error},
      {endless_loop, Outcome::timeout},
      {wrong_element, Outcome::wrong_result},
      {does_not_compile, Outcome::compile_error},
      {too_many_threads, Outcome::launch_error},
      {writes_before_c, Outcome::wrong_result},
      {changes_a, Outcome::wrong_result},
      {ignores_beta, Outcome::wrong_result},
      {trap, Outcome::launch_error},
      {misaligned, Outcome::launch_error},
  };
  const std::vector<Record> records = database.records({problem, "", "", {}, 0});
  EXPECT_EQ(records.size(), 21u);
  int failures = 0;
  for (const Record& record : records) {
    const int fault = record.candidate.configuration.at("FAULT");
    EXPECT_EQ(record.outcome, expected.at(fault)) << "fault " << fault << ": " << record.detail;
    EXPECT_EQ(record.detail.empty(), record.outcome == Outcome::ok);
    EXPECT_EQ(record.measurement.has_value(), record.outcome == Outcome::ok);
    failures += record.outcome != Outcome::ok;
    std::printf("fault %2d: %-13s %s\n", fault, std::string(to_string(record.outcome)).c_str(),
                record.detail.substr(0, 120).c_str());
  }
  EXPECT_EQ(failures, 20);
}

}  // namespace
}  // namespace tilewise::faults_gpu_test
