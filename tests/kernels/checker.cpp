#include "tests/kernels/checker.hpp"

#include <cstdio>

#include "device/host/host.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check {
namespace {

struct Size {
  std::int64_t m, n, k;
};
constexpr Size kShapes[] = {{1, 1, 1},    {17, 33, 9},  {65, 31, 40},
                            {40, 64, 50}, {70, 90, 33}, {37, 5, 130}};
constexpr int kPaddings[] = {0, 1};
constexpr const char* kDevice = "host:sm_90a";
constexpr host::ThreadOrder kOrders[] = {host::ThreadOrder::forward, host::ThreadOrder::reversed,
                                         host::ThreadOrder::shuffled};
// After a wrong result a thread sanitizer may still find, in a larger shape, which lines race.
constexpr bool kGoOn = kMode == "ThreadSanitizer";

double alpha_of(int padding) { return padding ? -2 : 1; }
double beta_of(int padding) { return padding ? 3 : 0; }

}  // namespace

Checker::Checker(const Options& options, const Compiler& compiler)
    : options_(options), compiler_(compiler), info_(host::device_info(kDevice)) {}

const CompileResult& Checker::image(const KernelSpec& kernel) {
  if (const auto known = images_.find(kernel); known != images_.end()) return known->second;
  const KernelSource source = source_of(kernel.source, options_);
  return images_
      .emplace(kernel, compiler_.compile({kernel, source.text, source.headers, info_.target}))
      .first->second;
}

std::string Checker::check(const Case& c, std::int64_t& products) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  std::vector<Image> images;
  for (const LaunchStep& step : kernel.plan(c.typical, c.candidate.configuration, info_).steps) {
    const CompileResult& made = image(step.kernel);
    if (!made.image) return "does not compile: " + made.log;
    images.push_back(*made.image);
  }
  std::string wrong;
  for (const host::ThreadOrder order : kOrders) {
    // One at a time: what a thread sanitizer keeps of every fiber is much, and slows it down.
    const auto device = host::open_device(kDevice, {order, options_.seed, 1, 2});
    for (const Size& size : kShapes) {
      Run run{*device, order, c.typical, 0, options_.seed + static_cast<std::uint64_t>(products)};
      run.problem.m = size.m, run.problem.n = size.n, run.problem.k = size.k;
      if (!rejection(kernel, run.problem, c.candidate.configuration, info_).empty()) continue;
      for (const int padding : kPaddings) {
        run.padding = padding;
        ++run.seed;
        ++products;
        const std::string what = check(c, run, images, wrong.empty());
        if (what.empty() || !wrong.empty()) continue;
        wrong = what + explain(c, run);
        if (!kGoOn) return wrong;
      }
    }
  }
  return wrong;
}

std::string Checker::check(const Case& c, const Run& run, const std::vector<Image>& images,
                           bool watch) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  const Executable executable(run.device, run.problem,
                              kernel.plan(run.problem, c.candidate.configuration, info_), images);
  Operands operands(run.problem, run.padding, run.seed);
  const double alpha = alpha_of(run.padding), beta = beta_of(run.padding);
  const auto difference = operands.difference(run.device, executable, alpha, beta);
  if (!difference) return "";
  const std::string where = to_string(run.problem) + ", thread order " +
                            std::to_string(static_cast<int>(run.order)) + ": " + difference->text;
  if (kMode != "ThreadSanitizer" || !watch) return where;
  std::fprintf(stderr, "%s: the races reported next are of a watch: they name who writes it\n",
               where.c_str());
  operands.watch(run.device, executable, alpha, beta, difference->index);
  return where;
}

/// Which fragment of a tensor core operation was filled wrongly: the kernel runs with operands that
/// say where they come from.
std::string Checker::explain(const Case& c, const Run& run) {
  const KernelTemplate& kernel = checked_template(c.candidate.kernel_template);
  Plan plan = kernel.plan(run.problem, c.candidate.configuration, info_);
  bool any = false;
  for (const LaunchStep& step : plan.steps)
    any |= source_of(step.kernel.source, options_).text.find("\"mma.cuh\"") != std::string::npos;
  for (const Tag tag : {Tag::k, Tag::line}) {
    if (!any) break;
    std::vector<Image> images;
    Plan tagged = plan;
    for (LaunchStep& step : tagged.steps) {
      step.kernel.defines.emplace_back("TILEWISE_TAGGED", static_cast<int>(tag));
      const CompileResult& made = image(step.kernel);
      if (!made.image) return "; with tags it does not compile: " + made.log;
      images.push_back(*made.image);
    }
    try {
      const Executable executable(run.device, run.problem, tagged, images);
      Operands operands(run.problem, run.padding, run.seed, tag);
      operands.difference(run.device, executable, 1, 0);
    } catch (const Error& error) {
      return std::string("\n  ") + error.what();
    }
  }
  return any ? "\n  no fragment contradicts itself or those beside it: look at which tile is "
               "loaded, and where sums are stored"
             : "";
}

}  // namespace tilewise::check
