#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "templates/families/emulated/plan.hpp"
#include "templates/families/emulated/sizes.hpp"
#include "templates/families/families.hpp"
#include "templates/space/common_constraints.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {
namespace emulated {
namespace {

bool supports(const Problem& problem, const DeviceInfo& device, bool halves) {
  if (!has_one_operand_type(problem) || problem.math != MathMode::emulated ||
      problem.a.type != (halves ? DType::f32 : DType::f64) || is_batched(problem) ||
      problem.k < 1 || !has(device.features, Feature::wgmma))
    return false;
  // The rows of an operand in two parts are numbered through.
  return halves ? problem.k <= Scheme::kMostDepth &&
                      2 * std::max(problem.m, round_up(problem.n, Sizes::kColumns)) <= kMostByTma
                : has(device.features, Feature::mma_f64) &&
                      std::max({problem.m, problem.n, problem.k}) <= kMostByTma;
}

/// wgmma's, with the values that are possible: operands and C are aligned, sums of residues whole.
/// halves: also whether sums are promoted.
std::vector<Parameter> parameters(bool halves) {
  std::vector<Parameter> made;
  for (Parameter parameter : multiplier().parameters) {
    const std::string& name = parameter.name;
    if (name == "SPLIT_K" || name == "STREAM_K" || (name == "PROMOTE" && !halves)) continue;
    const auto keep = [&](const auto& is_kept) {
      std::vector<int> values;
      std::vector<std::string> labels;
      for (std::size_t i = 0; i < parameter.values.size(); ++i) {
        if (!is_kept(parameter.values[i])) continue;
        values.push_back(parameter.values[i]);
        if (!parameter.labels.empty()) labels.push_back(parameter.labels[i]);
      }
      parameter.values = std::move(values), parameter.labels = std::move(labels);
    };
    if (name == "PACK_A" || name == "PACK_B") keep([](int value) { return value == 0; });
    if (!halves && (name == "TILE_M" || name == "TILE_N"))
      keep([](int value) { return value <= 24 || value % 16 == 0; });
    if (name == "TILE_K")
      keep([&](int value) { return halves ? value >= 32 && value <= 128 : value >= 64; });
    // Whose sums leave registers for those that are promoted, and without turns (wgmma's hints).
    if (halves && name == "TILE_M") keep([](int value) { return value <= 192 || value == 256; });
    if (halves && name == "TILE_N") keep([](int value) { return value <= 208 || value == 256; });
    if (halves && name == "PING_PONG") keep([](int value) { return value == 0; });
    if (name == "PROMOTE") keep([](int value) { return value == 1 || value == 2; });
    if (name == "EPILOGUE") keep([](int value) { return value == 0 || value == 2; });
    if (name == "VECTOR_C") keep([](int value) { return value <= 2; });
    made.push_back(std::move(parameter));
  }
  return made;
}

/// wgmma's constraints, of the inner products.
std::vector<Constraint> constraints(bool halves) {
  const std::vector<Parameter> known = parameters(halves);
  std::vector<Constraint> made;
  for (const Constraint& of : multiplier().constraints) {
    Constraint constraint = of;
    constraint.concerns = nullptr;
    const auto is_absent = [&](const std::string& name) {
      return std::none_of(known.begin(), known.end(),
                          [&](const Parameter& parameter) { return parameter.name == name; });
    };
    std::erase_if(constraint.reads, is_absent);
    std::erase_if(constraint.of_work, is_absent);
    constraint.holds = [of](const ConstraintInput& in) {
      const Problem products = Sizes(in.problem, in.device).products();
      if (of.concerns && !of.concerns(products)) return true;
      return of.holds({products, in.configuration, in.device, in.numbers});
    };
    made.push_back(std::move(constraint));
  }
  made.push_back(
      {"workspace_fits",
       {},
       "the workspace takes at most a quarter of the GPU's memory, with C's columns in "
       "at most 16 chunks",
       [](const ConstraintInput& in) { return Sizes(in.problem, in.device).fits(in.device); }});
  return made;
}

/// Whether wgmma's constraints hold for the inner products.
bool multiplies(const Problem& products, const Configuration& c, const DeviceInfo& device) {
  const std::vector<Constraint>& all = multiplier().constraints;
  return std::all_of(all.begin(), all.end(), [&](const Constraint& constraint) {
    return constraint.for_search_only || (constraint.concerns && !constraint.concerns(products)) ||
           constraint.holds({products, c, device});
  });
}

/// wgmma's default, or where C is large the tile that searches of large products found on an H200.
Configuration default_configuration(const Problem& problem, const DeviceInfo& device) {
  Configuration c;
  const bool halves = Scheme(problem).halves;
  const Problem products = Sizes(problem, device).products();
  const Configuration of_products = multiplier().default_configuration(products, device);
  for (const auto& [name, value] : of_products.values())
    if (name != "SPLIT_K" && name != "STREAM_K" && (halves || name != "PROMOTE"))
      c.set(name, value);
  c.set("VECTOR_C", 1);
  c.set("EPILOGUE", 2);
  if (!multiplies(products, c, device)) c.set("EPILOGUE", 0);
  if (std::min(problem.m, problem.n) < 1024) return c;
  Configuration large = c;
  for (const auto& [name, value] : {std::pair{"TILE_M", 128},
                                    {"TILE_N", halves ? 128 : 256},
                                    {"TILE_K", halves ? 64 : 128},
                                    {"CONSUMERS", 2},
                                    {"PING_PONG", 0},
                                    {"STAGES", 3},
                                    {"SWAP_AB", 0},
                                    {"EPILOGUE", 2},
                                    {"VECTOR_C", 1},
                                    {"GROUP_M", 16}})
    large.set(name, value);
  return multiplies(products, large, device) ? large : c;
}

KernelTemplate family(bool halves) {
  KernelTemplate t;
  t.parameters = parameters(halves);
  t.constraints = constraints(halves);
  t.supports = [halves](const Problem& problem, const DeviceInfo& device) {
    return supports(problem, device, halves);
  };
  t.plan = make_plan;
  t.tensor_cores = true;
  t.tile_levels = multiplier().tile_levels;
  t.default_configuration = default_configuration;
  // Smaller products are faster by the native units.
  t.default_rank = [halves](const Problem& problem) {
    return flops_of(problem) >= (halves ? 0x1p34 : 0x1p36) ? 5 : 40;
  };
  return t;
}

}  // namespace
}  // namespace emulated

KernelTemplate residues_template() {
  KernelTemplate t = emulated::family(false);
  t.name = "residues";
  t.summary = "f64 by products of 8-bit residues, checked by the GPU";
  t.revision = 4;
  return t;
}
KernelTemplate halves_template() {
  KernelTemplate t = emulated::family(true);
  t.name = "halves";
  t.summary = "f32 by three products of 16-bit halves, checked by the GPU";
  t.revision = 3;
  return t;
}

}  // namespace tilewise
