#include "tests/kernels/own_templates.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "templates/families/families.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check {
namespace {

constexpr int kTile = 32, kThreads = 64;

std::uint32_t blocks_for(const Problem& p) {
  return static_cast<std::uint32_t>((p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile));
}

std::vector<Argument> plain_arguments(const Problem& p) {
  using Kind = Argument::Kind;
  return {{Kind::a},
          {Kind::b},
          {Kind::c},
          {Kind::lda},
          {Kind::ldb},
          {Kind::ldc},
          {Kind::integer64, p.m},
          {Kind::integer64, p.n},
          {Kind::k},
          {Kind::alpha},
          {Kind::beta}};
}

Plan fragments_plan(const Problem& p, const Configuration& c, const DeviceInfo&) {
  Plan made;
  if (p.m == 0 || p.n == 0) return made;
  LaunchStep step;
  step.kernel = {"fragments.cu",
                 "fragments",
                 {{"A_TRANSPOSED", reads_a_transposed(p, Pack::none)},
                  {"BF16", c.at("BF16")},
                  {"B_TRANSPOSED", reads_b_transposed(p, Pack::none)},
                  {"FLOATS", 1},
                  {"STEP", c.at("STEP")}}};
  step.grid.x = blocks_for(p);
  step.block.x = kThreads;
  step.shared_bytes = 2 * kTile * (kTile + 8) * 2;
  step.arguments = plain_arguments(p);
  made.steps.push_back(step);
  return made;
}

Plan staged_plan(const Problem& p, const Configuration& c, const DeviceInfo&) {
  Plan made;
  if (p.m == 0 || p.n == 0) return made;
  LaunchStep step;
  step.kernel = {"staged.cu",
                 "staged",
                 {{"A_TRANSPOSED", reads_a_transposed(p, Pack::none)},
                  {"B_TRANSPOSED", reads_b_transposed(p, Pack::none)},
                  {"STAGES", c.at("STAGES")}}};
  step.grid.x = blocks_for(p);
  step.block.x = kThreads;
  step.shared_bytes = static_cast<std::uint32_t>(c.at("STAGES") * 2 * kTile * 16 * 4);
  step.arguments = plain_arguments(p);
  made.steps.push_back(step);
  return made;
}

bool supports_one_product(const Problem& problem, const DeviceInfo& device) {
  return supports_strict_f32(problem, device) && problem.math == MathMode::strict &&
         problem.batch == 1;
}

KernelTemplate staged_template() {
  KernelTemplate t;
  t.name = "staged";
  t.summary = "a product through a pipeline filled by cp.async, for checking";
  t.parameters = {{"STAGES", {2, 3, 4}, "tiles in shared memory"}};
  t.supports = supports_one_product;
  t.plan = staged_plan;
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"STAGES", 3}};
  };
  return t;
}

Plan tiles_plan(const Problem& p, const Configuration& c, const DeviceInfo&) {
  using Kind = Argument::Kind;
  Plan made;
  if (p.m == 0 || p.n == 0) return made;
  const bool a_transposed = reads_a_transposed(p, Pack::none);
  const bool b_transposed = reads_b_transposed(p, Pack::none);
  LaunchStep step;
  step.kernel = {"tiles.cu",
                 "tiles",
                 {{"A_TRANSPOSED", a_transposed},
                  {"B_TRANSPOSED", b_transposed},
                  {"STAGES", c.at("STAGES")},
                  {"SWIZZLE", c.at("SWIZZLE")}}};
  step.grid.x = blocks_for(p);
  step.block.x = kThreads;
  step.shared_bytes = static_cast<std::uint32_t>(c.at("STAGES") * (2 * kTile * kTile * 4 + 16));
  step.arguments = {{Kind::tensor_map, 0},
                    {Kind::tensor_map, 1},
                    {Kind::c},
                    {Kind::ldc},
                    {Kind::integer64, p.m},
                    {Kind::integer64, p.n},
                    {Kind::k},
                    {Kind::alpha},
                    {Kind::beta}};
  made.steps.push_back(step);
  TensorMapRecipe map;
  map.box = {kTile, kTile};
  map.swizzle_bytes = c.at("SWIZZLE");
  map.base = {Kind::a}, map.stride = {Kind::lda};
  map.dims = {a_transposed ? p.m : p.k, a_transposed ? p.k : p.m};
  made.tensor_maps.push_back(map);
  map.base = {Kind::b}, map.stride = {Kind::ldb};
  map.dims = {b_transposed ? p.k : p.n, b_transposed ? p.n : p.k};
  made.tensor_maps.push_back(map);
  return made;
}

KernelTemplate tiles_template() {
  KernelTemplate t;
  t.name = "tiles";
  t.summary = "a product of tiles that the GPU copies by itself, for checking";
  t.parameters = {{"STAGES", {2, 3}, "tiles in shared memory"},
                  {"SWIZZLE", {0, 128}, "of the tiles, bytes"}};
  t.supports = [](const Problem& p, const DeviceInfo& device) {
    return supports_one_product(p, device) && has(device.features, Feature::tma) &&
           p.a.alignment == 16 && p.b.alignment == 16;
  };
  t.plan = tiles_plan;
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"STAGES", 2}, {"SWIZZLE", 128}};
  };
  return t;
}

KernelTemplate fragments_template() {
  KernelTemplate t;
  t.name = "fragments";
  t.summary = "a product through ldmatrix and mma.sync, for checking";
  t.parameters = {{"BF16", {0, 1}, "bf16, else f16"}, {"STEP", {8, 16}, "k of the instruction"}};
  t.constraints = {
      {"step_exists",
       {"BF16", "STEP"},
       "STEP is 16 with bf16",
       [](const ConstraintInput& in) {
         return in.configuration.at("BF16") == 0 || in.configuration.at("STEP") == 16;
       }},
      {"has_bf16", {"BF16"}, "BF16 needs the feature mma_bf16", [](const ConstraintInput& in) {
         return in.configuration.at("BF16") == 0 || has(in.device.features, Feature::mma_bf16);
       }}};
  t.supports = supports_one_product;
  t.plan = fragments_plan;
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"BF16", 0}, {"STEP", 16}};
  };
  return t;
}

}  // namespace

std::vector<KernelTemplate> own_templates() {
  return {staged_template(), fragments_template(), tiles_template()};
}

KernelSource source_by_name(const std::string& name) {
  const auto own = own_templates();
  if (std::none_of(own.begin(), own.end(), [&](const auto& t) { return t.name + ".cu" == name; }))
    return kernel_source(name);
  const std::string path = TILEWISE_SOURCE_DIR "/tests/kernels/" + name;
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::io, "cannot read " + path);
  return {name, {std::istreambuf_iterator<char>(file), {}}, kernel_source("tiled.cu").headers};
}

}  // namespace tilewise::check
