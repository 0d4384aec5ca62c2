#include "tuner/cli/kinds.hpp"

#include <algorithm>

#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cli {
namespace {

Problem problem_of(const ProductKind& kind) {
  Problem problem;
  problem.m = problem.n = problem.k = 1024;
  set_types(problem, kind.operand, kind.c, kind.math);
  return problem;
}

bool can_do(const Problem& problem, const DeviceInfo& device) {
  const auto templates = catalog();
  return std::any_of(templates.begin(), templates.end(), [&](const KernelTemplate& kernel) {
    return kernel.supports(problem, device);
  });
}

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

std::string kind_text(const Problem& problem) {
  std::string text(to_string(problem.a));
  if (problem.c != default_result(problem.a)) text += " to " + std::string(to_string(problem.c));
  if (problem.math != MathMode::strict) text += " by " + std::string(to_string(problem.math));
  return text;
}

std::string table_text(const Problem& problem) {
  std::string text = std::string(to_string(problem.layout)) + " " + size_text(problem);
  if (const std::string kind = kind_text(problem); kind != "f32") text += " " + kind;
  if (problem.batch != 1) text += " batch " + std::to_string(problem.batch);
  return text;
}

std::string alignment_text(const Alignment& alignment) {
  return std::to_string(alignment.a) + "," + std::to_string(alignment.b) + "," +
         std::to_string(alignment.c);
}

std::vector<std::string> kinds_on(const DeviceInfo& device) {
  std::vector<std::string> kinds;
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = problem_of(kind);
    if (can_do(problem, device)) kinds.push_back(kind_text(problem));
  }
  return kinds;
}

std::vector<std::string> operand_types_on(const DeviceInfo& device) {
  std::vector<std::string> types;
  for (const ProductKind& kind : product_kinds())
    if (can_do(problem_of(kind), device)) add_once(types, std::string(to_string(kind.operand)));
  return types;
}

void check_kind(const Problem& problem, const DeviceInfo& device) {
  if (can_do(problem, device)) return;
  std::string kinds;
  for (const std::string& kind : kinds_on(device)) kinds += (kinds.empty() ? "" : ", ") + kind;
  throw Error(ErrorKind::unsupported, "no kernel template computes " + table_text(problem) + " (" +
                                          kind_text(problem) + ") on " + device.name + " (" +
                                          to_string(device.target) + "), which can do: " + kinds);
}

MathMode mode_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                     const std::vector<Winner>& winners) {
  const Resolver resolver(winners, device);
  return fastest_within(problem, accuracy, device,
                        [&](const Problem& asked) { return resolver.resolve(asked); });
}

}  // namespace tilewise::cli
