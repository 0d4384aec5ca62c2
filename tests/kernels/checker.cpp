#include "tests/kernels/checker.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "device/cpu/cpu.hpp"
#include "tests/support/numbers.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::check {
namespace {

constexpr Size kShapes[] = {{1, 1, 1},     {17, 33, 9},   {65, 31, 40}, {40, 64, 50}, {70, 90, 33},
                            {150, 5, 130}, {140, 72, 20}, {20, 24, 0},  {1, 72, 40},  {90, 1, 33}};
constexpr cpu::ThreadOrder kOrders[] = {cpu::ThreadOrder::forward, cpu::ThreadOrder::reversed,
                                        cpu::ThreadOrder::shuffled};
Problem with_sizes(Problem problem, const Size& size) {
  problem.m = size.m, problem.n = size.n, problem.k = size.k;
  return problem;
}

/// The problems on which a case runs: those of fixed sizes that it supports, and its own problem if
/// it is small.
std::vector<Problem> problems_for(const Case& c, const DeviceInfo& device, bool gpu) {
  std::vector<Size> shapes(std::begin(kShapes), std::end(kShapes));
  // Whose default splits k.
  if (c.typical.math == MathMode::emulated) shapes.push_back({9, 17, 1100});
  if (has_scales(c.typical)) shapes.push_back({9, 200, 300});  // of several blocks
  // Whose k has as many parts as the candidate adds.
  if (const int* split = c.candidate.configuration.find("SPLIT_K"); c.typical.order && split)
    shapes.push_back({9, 17, c.typical.order->part * *split});
  if (gpu) shapes.insert(shapes.end(), {{300, 520, 700}, {33, 17, 4100}});
  const Size own{c.typical.m, c.typical.n, c.typical.k};
  if (std::max({own.m, own.n, own.k}) <= 64) shapes.push_back(own);
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  std::vector<Problem> problems;
  for (const Size& size : shapes)
    if (const Problem problem = with_sizes(c.typical, size);
        rejection(kernel, problem, c.candidate.configuration, device).empty())
      problems.push_back(problem);
  // A batch is also run by pointers, in the largest of these sizes.
  const auto largest = std::max_element(
      problems.begin(), problems.end(),
      [](const Problem& x, const Problem& y) { return x.m * x.n * x.k < y.m * y.n * y.k; });
  if (largest != problems.end() && largest->batch > 1 && !is_grouped(*largest)) {
    Problem by_pointers = *largest;
    by_pointers.pointers = true;
    if (rejection(kernel, by_pointers, c.candidate.configuration, device).empty())
      problems.push_back(by_pointers);
  }
  return problems;
}

// No other block runs that could end the wait.
constexpr double kStallSeconds = 0.5;

// A kernel for few rows takes millions of threads for many rows, which finds no further mistakes.
constexpr std::uint64_t kMostThreads = kMode == "ThreadSanitizer" ? 1U << 16 : 1U << 18;

std::uint64_t threads_of(const Plan& plan) {
  std::uint64_t threads = 0;
  for (const LaunchStep& step : plan.steps) threads += volume(step.grid) * volume(step.block);
  return threads;
}

// After a wrong result, ThreadSanitizer may still find the racing lines in a larger shape.
constexpr bool kGoOn = kMode == "ThreadSanitizer";

/// Whether the template rounds the operands of f32 products in tf32; otherwise it multiplies f32.
/// Before sm_90 ties are rounded away from zero.
bool rounds_to_tf32(const KernelTemplate& kernel, const Problem& problem, const Target& target) {
  constexpr std::int64_t kLongest = 1024;  // largest k with exact sums
  return problem.math == MathMode::tf32 && problem.k <= kLongest && target.major >= 9 &&
         (kernel.name == "wgmma" || kernel.name == "mma");
}

/// The products of a case for one shape. Under the sanitizers, which check addresses, no two
/// products differ only in the operands' values. `all` adds results above and below C's range,
/// alpha = 0, and a batch with one A or B; these are needed once per case.
std::vector<Round> rounds_for(const Problem& problem, bool all, bool rounded) {
  std::vector<Round> rounds{{0, 1, 0, Values::whole}, {1, -2, 3, Values::whole}};
  // An epilogue computes in f32: whole numbers stay exact below 2^24.
  const bool values = kMode == "plain", bare = !problem.epilogue;
  if (values && rounded && bare)
    rounds.insert(rounds.end(), {{0, 1, 0, Values::fractions_a}, {0, 1, 0, Values::fractions_b}});
  if (values && bare && product_kind(problem)->promoted_every > 0 && problem.k > kPromotedEvery)
    rounds.push_back({0, 1, 0, Values::steep});
  if (values && bare && problem.math == MathMode::emulated && problem.batch == 1)
    for (const Values inexact : {Values::alike, Values::spread, Values::opposed, Values::extreme})
      rounds.push_back({0, 1, 0, inexact});
  if (!all) return rounds;
  const double large = !bare ? 8 : problem.accumulator == DType::i32 ? 0x1p24 : 512;
  if (values) rounds.push_back({0, large, 0, Values::special});
  if (values && bare && problem.accumulator != DType::i32)
    rounds.push_back({1, test::half_of_smallest(problem.c.type), 0, Values::whole});
  rounds.push_back({1, 0, 3, Values::special});
  if (problem.batch > 1) {
    rounds.push_back({0, 1, 0, Values::whole, true, !bare});
    rounds.push_back({1, 1, 2, Values::whole, false, true});
  }
  return rounds;
}

/// Unloads the kernels while no other thread uses the GPU.
struct Unload {
  std::optional<Executable>& executable;
  ~Unload() {
    const std::lock_guard lock(gpu_mutex());
    executable.reset();
  }
};

}  // namespace

Checker::Checker(const Options& options, const Compiler& compiler, Device* gpu)
    : options_(options),
      compiler_(compiler),
      gpu_(gpu),
      info_(gpu ? gpu->info() : checked_info(options)) {}

const CompileResult& Checker::image(const KernelSpec& kernel) {
  if (const auto known = images_.find(kernel); known != images_.end()) return known->second;
  const KernelSource source = source_of(kernel, options_);
  return images_
      .emplace(kernel, compiler_.compile({kernel, source.text, source.headers, info_.target}))
      .first->second;
}

std::string Checker::check(const Case& c, std::size_t number, std::atomic<std::int64_t>& products) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  const std::vector<Problem> problems = problems_for(c, info_, gpu_);
  const std::int64_t before = products;
  const bool shares = kMode != "plain" && options_.only.empty() && !options_.every_order;
  std::string wrong;
  for (const cpu::ThreadOrder order : kOrders) {
    if (gpu_ && order != kOrders[0]) break;
    // One device at a time: ThreadSanitizer's memory per fiber is large and slows it down.
    const auto cpu =
        gpu_ ? nullptr
             : cpu::open_device(options_.device, {order, options_.seed, 1, kStallSeconds});
    for (std::size_t i = 0; i < problems.size(); ++i) {
      // Each shape has one order, and the two smallest start in the first order.
      const bool in_turn = (number + i + static_cast<std::size_t>(order)) % std::size(kOrders) == 0;
      const bool begins = order == kOrders[0] && i < 2;
      if (!gpu_ && !options_.every_order && !in_turn && !begins) continue;
      // If many cases run, a sanitizer gets half of the further shapes of each.
      if (shares && i >= 2 && (number + i) % 2 != 0) continue;
      Run run{gpu_ ? *gpu_ : *cpu,
              order,
              problems[i],
              {},
              options_.seed + static_cast<std::uint64_t>(products)};
      const bool first = products == before;
      if (!gpu_ && !first &&
          threads_of(kernel.plan(run.problem, c.candidate.configuration, info_)) > kMostThreads)
        continue;
      for (const Round& round : rounds_for(run.problem, order == kOrders[0],
                                           rounds_to_tf32(kernel, run.problem, info_.target))) {
        run.round = round;
        ++run.seed;
        ++products;
        const std::string what = check(c, run, wrong.empty());
        if (what.empty() || !wrong.empty()) continue;
        wrong = what + explain(c, run);
        if (!kGoOn) return wrong;
      }
    }
  }
  return products > before ? wrong : "it takes none of the shapes that are run";
}

std::string Checker::images_of(const Plan& plan, std::vector<Image>& images) {
  for (const LaunchStep& step : plan.steps) {
    const CompileResult& made = image(step.kernel);
    if (!made.image) return made.log;
    images.push_back(*made.image);
  }
  return "";
}

std::string Checker::check(const Case& c, const Run& run, bool watch) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  const Plan plan = kernel.plan(run.problem, c.candidate.configuration, info_);
  std::vector<Image> images;
  if (const std::string log = images_of(plan, images); !log.empty())
    return std::string(kDoesNotCompile) + ": " + log;
  std::optional<Executable> executable;
  const Unload unload{executable};
  {
    const std::lock_guard lock(gpu_mutex());
    executable.emplace(run.device, run.problem, plan, images);
  }
  Operands operands(run.problem, run.round, run.seed);
  const auto difference = operands.difference(run.device, *executable);
  if (!difference) return "";
  const std::string where = to_string(run.problem) + ", thread order " +
                            std::to_string(static_cast<int>(run.order)) + ", alpha " +
                            std::to_string(run.round.alpha) + ", beta " +
                            std::to_string(run.round.beta) + ": " + difference->text;
  if (kMode != "ThreadSanitizer" || !watch || !difference->in_c) return where;
  std::fprintf(stderr, "%s: the races reported next are of a watch: they name who writes it\n",
               where.c_str());
  operands.watch(run.device, *executable, difference->index);
  return where;
}

/// Finds the fragment of a tensor core operation that was filled wrongly. Runs the kernel with
/// operands whose values encode their positions, which 8-bit numbers cannot.
std::string Checker::explain(const Case& c, const Run& run) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  const Plan plan = kernel.plan(run.problem, c.candidate.configuration, info_);
  bool any = false;
  for (const LaunchStep& step : plan.steps)
    // Packs use a conversion from that header.
    any |= step.role == StepRole::multiply &&
           includes(source_of(step.kernel, options_), "words/mma.cuh");
  if (!any || bytes_of(run.problem.a.type) == 1) return "";
  for (const Values values : {Values::tagged_k, Values::tagged_line}) {
    Plan tagged = plan;
    for (LaunchStep& step : tagged.steps)
      step.kernel.defines.emplace("TILEWISE_TAGGED", static_cast<int>(values));
    std::vector<Image> images;
    if (const std::string log = images_of(tagged, images); !log.empty())
      return "; with tags it does not compile: " + log;
    try {
      const Executable executable(run.device, run.problem, tagged, images);
      Operands operands(run.problem, {run.round.padding, 1, 0, values}, run.seed);
      operands.difference(run.device, executable);
    } catch (const Error& error) {
      return std::string("\n  ") + error.what();
    }
  }
  return "\n  no fragment contradicts itself or those beside it: look at which tile is loaded, and "
         "where sums are stored";
}

}  // namespace tilewise::check
