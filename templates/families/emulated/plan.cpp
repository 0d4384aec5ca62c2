#include "templates/families/emulated/plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "templates/families/emulated/sizes.hpp"
#include "templates/families/families.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "tilewise/error.hpp"

namespace tilewise::emulated {
namespace {

using Kind = Argument::Kind;

/// Moduli that data of one magnitude need, for the cost model.
constexpr int kExpected = 15;
/// The certificate's bound of residues over sqrt(k) 2^-53. With this value the median error is
/// below cuBLAS's (bench/results/h200_emulated.json).
constexpr double kOfBound = 0.625;
/// The certificate's bound of halves. The parts of every product that are left out are at most
/// 2.01 x 2^-22 of it.
constexpr double kHalvesBound = 0.99 * 0x1p-22;
/// 1, as the f32 that a kernel has for alpha.
constexpr std::int64_t kFloatOne = 0x3f800000;

/// The family of the native product.
const KernelTemplate& native(const Scheme& scheme) {
  static const KernelTemplate of_f64 = mma_template(), of_f32 = simt_template();
  return scheme.halves ? of_f32 : of_f64;
}

/// A configuration of the native product with one step. The fastest large ones of an H200 in f64
/// have these values (portfolios/nvidia-h200.json); those in f32 pack their operands, which is a
/// step of its own.
Configuration of_native(const Problem& problem, const DeviceInfo& device) {
  const KernelTemplate& family = native(Scheme(problem));
  Configuration c = family.default_configuration(problem, device);
  if (Scheme(problem).halves) return c;
  const Configuration usual = c;
  const auto bytes = [](const Operand& operand) { return operand.alignment == 16 ? 16 : 8; };
  for (const auto& [name, value] : {std::pair{"TILE_M", 128},
                                    {"TILE_N", 128},
                                    {"TILE_K", 32},
                                    {"WARP_M", 32},
                                    {"WARP_N", 64},
                                    {"STAGES", 3},
                                    {"TMA", 1},
                                    {"FRAGMENTS", 2},
                                    {"BYTES_A", bytes(problem.a)},
                                    {"BYTES_B", bytes(problem.b)},
                                    {"EPILOGUE", 1},
                                    {"VECTOR_C", bytes(problem.c) / 8},
                                    {"GROUP_M", 4}})
    c.set(name, value);
  return is_valid(family, problem, c, device) ? c : usual;
}

/// The parts of the workspace.
struct Memory {
  std::int64_t rows, columns, needed, a, b, c, all;
  /// from: bytes that other steps use.
  Memory(const Sizes& r, std::int64_t all_columns, std::int64_t from) {
    all = round_up(from, std::int64_t{256});
    const auto take = [&](std::int64_t bytes) {
      return std::exchange(all, all + round_up(bytes, std::int64_t{256}));
    };
    rows = take(r.m * residues::kScaleBytes);
    columns = take(all_columns * residues::kScaleBytes);
    needed = take(sizeof(std::int32_t));
    a = take(r.bytes_a());
    b = take(r.bytes_b());
    c = take(r.bytes_c());
  }
};

/// Makes the plan, step by step.
class EmulatedPlan {
 public:
  EmulatedPlan(const Problem& problem, const Configuration& c, const DeviceInfo& device)
      : problem_(problem),
        configuration_(c),
        device_(device),
        r_(problem, device),
        native_(native(r_.scheme).plan(problem, of_native(problem, device), device)),
        memory_(r_, problem.n, native_.workspace_bytes) {
    plan_.workspace_bytes = memory_.all;
  }
  Plan make() {
    if (r_.m == 0 || r_.n == 0) return {};
    add_scales();
    for_chunks([&](std::int64_t first, std::int64_t columns) {
      add_planes(first, columns, true, first == 0);
      add_products(columns, true);
      add_certificate(first, columns);
    });
    for_chunks([&](std::int64_t first, std::int64_t columns) {
      add_planes(first, columns, false, first == 0);
      add_products(columns, false);
      add_combination(first, columns);
    });
    add_native();
    for (std::size_t i = 1; i < plan_.steps.size(); ++i)
      plan_.steps[i].programmatic = has(device_.features, Feature::programmatic_launch);
    for (const LaunchStep& step : plan_.steps) plan_.work += step.work;
    plan_.work.flops = flops_of(problem_);
    return std::move(plan_);
  }

 private:
  template <class Each>
  void for_chunks(const Each& each) {
    for (std::int64_t first = 0; first < r_.n; first += r_.columns)
      each(first, std::min(r_.columns, r_.n - first));
  }
  std::vector<Argument> moduli() const {  // ModuliArgs
    return {{Kind::workspace, memory_.needed}, {Kind::integer64, r_.parts}};
  }
  static void append(std::vector<Argument>& to, const std::vector<Argument>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }
  LaunchStep step(StepRole role, const std::string& name) const {
    LaunchStep made;
    made.role = role;
    made.kernel = {name + ".cu", name, {}};
    return made;
  }
  static void set_blocks(LaunchStep& step, std::int64_t blocks, int threads) {
    step.grid.x = static_cast<std::uint32_t>(blocks);
    step.block.x = static_cast<std::uint32_t>(threads);
  }
  /// Bytes that the step reads and writes, and instructions.
  static void state_work(LaunchStep& step, double bytes, double instructions) {
    step.work.compulsory_bytes = step.work.global_bytes = bytes;
    step.work.instructions = instructions;
  }
  double elements(std::int64_t columns) const {
    return double(r_.k) * (double(r_.m) + double(columns));
  }
  /// Bytes of an element of A and B.
  double element_bytes() const { return bytes_of(problem_.a.type); }
  /// Elements of an access of 16 bytes at most.
  int vector_of(int alignment) const {
    return std::clamp(alignment / bytes_of(problem_.a.type), 1, 16 / bytes_of(problem_.a.type));
  }

  void add_scales() {
    const residues::ScalesLayout a{!problem_.a.transposed}, b{problem_.b.transposed};
    const std::int64_t blocks_a = ceil_div(r_.m, a.rows());
    LaunchStep made = step(StepRole::scale, "scales");
    made.kernel.defines = {{"A_TRANSPOSED", problem_.a.transposed},
                           {"B_TRANSPOSED", problem_.b.transposed}};
    add_types(made.kernel, problem_);
    // The fields of ScalesArgs in scales.cu.
    made.arguments = {{Kind::a},
                      {Kind::lda},
                      {Kind::integer64, r_.m},
                      {Kind::workspace, memory_.rows},
                      {Kind::b},
                      {Kind::ldb},
                      {Kind::integer64, r_.n},
                      {Kind::workspace, memory_.columns},
                      {Kind::k},
                      {Kind::workspace, memory_.needed},
                      {Kind::integer32, blocks_a}};
    set_blocks(made, blocks_a + ceil_div(r_.n, b.rows()), a.kThreads);
    made.shared_bytes = 3 * a.kThreads * sizeof(double);
    state_work(made, elements(r_.n) * element_bytes(), elements(r_.n) * 12);
    plan_.steps.push_back(std::move(made));
  }

  /// with_a: A's matrices, too.
  void add_planes(std::int64_t first, std::int64_t columns, bool magnitudes, bool with_a) {
    const residues::PlanesLayout a{!problem_.a.transposed}, b{problem_.b.transposed};
    const std::int64_t depth = magnitudes ? r_.magnitudes_depth() : r_.depth;
    const auto blocks = [&](const residues::PlanesLayout& layout, std::int64_t rows) {
      return ceil_div(rows, std::int64_t{layout.rows()}) *
             ceil_div(depth, std::int64_t{layout.depth()}) * r_.parts;
    };
    const std::int64_t to_columns = round_up(columns, Sizes::kColumns);
    const std::int64_t blocks_a = with_a ? blocks(a, r_.m) : 0;
    LaunchStep made = step(StepRole::split, "planes");
    made.kernel.defines = {{"A_TRANSPOSED", problem_.a.transposed},
                           {"B_TRANSPOSED", problem_.b.transposed},
                           {"VECTOR_A", vector_of(problem_.a.alignment)},
                           {"VECTOR_B", vector_of(problem_.b.alignment)},
                           {"OF_HALVES", r_.scheme.halves},
                           {"MAGNITUDES", magnitudes}};
    add_types(made.kernel, problem_);
    // The fields of PlanesArgs in planes.cu.
    made.arguments = {{Kind::a},
                      {Kind::lda},
                      {Kind::integer64, 0},
                      {Kind::integer64, r_.m},
                      {Kind::workspace, memory_.rows},
                      {Kind::workspace, memory_.a},
                      {Kind::integer64, r_.m},
                      {Kind::b},
                      {Kind::ldb},
                      {Kind::integer64, first},
                      {Kind::integer64, columns},
                      {Kind::workspace, memory_.columns},
                      {Kind::workspace, memory_.b},
                      {Kind::integer64, to_columns},
                      {Kind::k},
                      {Kind::integer64, depth},
                      {Kind::integer64, magnitudes ? r_.magnitudes_ld() : r_.ld},
                      {Kind::integer64, r_.sampled_of()}};
    append(made.arguments, moduli());
    made.arguments.push_back({Kind::integer32, blocks_a});
    set_blocks(made, blocks_a + blocks(b, to_columns), a.kThreads);
    const double all = with_a ? elements(columns) : double(r_.k) * double(columns);
    const double taken = all * double(depth) / double(r_.depth);
    const double matrices = magnitudes ? 1 : r_.scheme.halves ? 4 : kExpected;
    state_work(made, taken * (element_bytes() + matrices), taken * (10 + 6 * matrices));
    plan_.steps.push_back(std::move(made));
  }

  /// The argument of an inner plan, with the call's operands in the workspace.
  Argument bound(const Argument& inner, const Problem& products, std::int64_t ld) const {
    const bool floats = products.accumulator == DType::f32;
    switch (inner.kind) {
      case Kind::a:
        return {Kind::workspace, memory_.a};
      case Kind::b:
        return {Kind::workspace, memory_.b};
      case Kind::c:
        return {Kind::workspace, memory_.c};
      case Kind::lda:
      case Kind::ldb:
        return {Kind::integer64, ld};
      case Kind::ldc:
        return {Kind::integer64, products.n};
      case Kind::stride_a:
        return {Kind::integer64, r_.m * ld};
      case Kind::stride_b:
        return {Kind::integer64, products.n * ld};
      case Kind::stride_c:
        return {Kind::integer64, r_.m * products.n};
      case Kind::alpha:
        return {Kind::integer32, floats ? kFloatOne : 1};
      case Kind::beta:
        return {Kind::integer32, 0};
      case Kind::alpha_device:
      case Kind::beta_device:
        return {Kind::integer64, 0};
      case Kind::k:
        return products.k == r_.k ? inner : Argument{Kind::integer64, products.k};
      default:
        return inner;
    }
  }

  /// Adds an inner plan's tensor maps, which a step's arguments name.
  void add_maps(LaunchStep& step, const Plan& inner) {
    const auto before = static_cast<std::int64_t>(plan_.tensor_maps.size());
    for (Argument& argument : step.arguments)
      if (argument.kind == Kind::tensor_map) argument.value += before;
    plan_.tensor_maps.insert(plan_.tensor_maps.end(), inner.tensor_maps.begin(),
                             inner.tensor_maps.end());
  }

  /// The products of a chunk's matrices, or of its magnitudes.
  void add_products(std::int64_t columns, bool magnitudes) {
    const Problem products = magnitudes ? r_.magnitudes(columns) : r_.products(columns);
    const std::int64_t ld = magnitudes ? r_.magnitudes_ld() : r_.ld;
    Configuration c = of_multiplier(configuration_);
    if (magnitudes) c.set("PROMOTE", 0);
    if (magnitudes && !is_valid(multiplier(), products, c, device_)) {
      c = multiplier().default_configuration(products, device_);
      c.set("SPLIT_K", 1);
    }
    Plan inner = multiplier().plan(products, c, device_);
    if (inner.steps.size() != 1 || inner.workspace_bytes != 0)
      throw Error(ErrorKind::unsupported, "inner products are one step, without a workspace");
    LaunchStep made = std::move(inner.steps.front());
    std::vector<Argument> arguments;
    for (const Argument& argument : made.arguments) {
      if (argument.kind == Kind::alpha && !magnitudes) append(arguments, moduli());
      arguments.push_back(bound(argument, products, ld));
    }
    made.arguments = std::move(arguments);
    for (TensorMapRecipe& map : inner.tensor_maps) {
      map.base = bound(map.base, products, ld);
      map.stride = bound(map.stride, products, ld);
      map.batch_stride = bound(map.batch_stride, products, ld);
    }
    add_maps(made, inner);
    if (magnitudes) {
      made.role = StepRole::certify;
    } else if (r_.scheme.halves) {
      made.kernel.defines.emplace("OF_HALVES", 1);
    } else {
      made.kernel.defines.emplace("RESIDUES", 1);
      constexpr double kShare = double(kExpected) / residues::kMost;
      for (double* work : {&made.work.flops, &made.work.issued_flops, &made.work.global_bytes,
                           &made.work.compulsory_bytes, &made.work.shared_bytes,
                           &made.work.instructions, &made.schedule.rounds, &made.schedule.tiles})
        *work *= kShare;
    }
    plan_.steps.push_back(std::move(made));
  }

  std::int64_t blocks_of_elements(std::int64_t columns) const {
    return ceil_div(ceil_div(r_.m, std::int64_t{residues::kDown}) *
                        ceil_div(columns, std::int64_t{residues::kTogether}),
                    std::int64_t{residues::kThreads});
  }

  void add_certificate(std::int64_t first, std::int64_t columns) {
    LaunchStep made = step(StepRole::certify, "certify");
    made.kernel.defines = {{"OF_HALVES", r_.scheme.halves}, {"PARTS", r_.parts > 1}};
    const double depth = double(std::max<std::int64_t>(1, r_.k));
    const double tau = r_.scheme.halves ? kHalvesBound : kOfBound * std::sqrt(depth) * 0x1p-53;
    // The fields of CertifyArgs in certify.cu.
    made.arguments = {
        {Kind::workspace, memory_.c},
        {Kind::workspace, memory_.rows},
        {Kind::workspace, memory_.columns},
        {Kind::integer64, r_.m},
        {Kind::integer64, first},
        {Kind::integer64, columns},
        {Kind::integer64, round_up(columns, Sizes::kColumns)},
        {Kind::k},
        {Kind::workspace, memory_.needed},
        {r_.scheme.halves ? Kind::integer64 : Kind::tolerance, std::bit_cast<std::int64_t>(tau)},
        {Kind::integer32, r_.parts}};
    set_blocks(made, blocks_of_elements(columns), residues::kThreads);
    const double results = double(r_.m) * double(columns);
    state_work(made, results * 4 * double(r_.parts), results * 20);
    plan_.steps.push_back(std::move(made));
  }

  void add_combination(std::int64_t first, std::int64_t columns) {
    LaunchStep made = step(StepRole::reduce, "combine");
    made.kernel.defines = {{"OF_HALVES", r_.scheme.halves},
                           {"PARTS", r_.parts > 1},
                           {"VECTOR_C", vector_of(problem_.c.alignment)}};
    add_types(made.kernel, problem_);
    // The fields of CombineArgs in combine.cu.
    made.arguments = {{Kind::workspace, memory_.c},
                      {Kind::workspace, memory_.rows},
                      {Kind::workspace, memory_.columns},
                      {Kind::c},
                      {Kind::alpha_device},
                      {Kind::beta_device},
                      {Kind::ldc},
                      {Kind::integer64, r_.m},
                      {Kind::integer64, first},
                      {Kind::integer64, columns},
                      {Kind::integer64, round_up(columns, Sizes::kColumns)},
                      {Kind::k},
                      {first == 0 ? Kind::counts : Kind::integer64}};
    append(made.arguments, moduli());
    append(made.arguments, {{Kind::alpha}, {Kind::beta}});
    // The epilogue, as the native product has it.
    const LaunchStep& other = native_.steps.front();
    const auto beta = std::find_if(other.arguments.begin(), other.arguments.end(),
                                   [](const Argument& x) { return x.kind == Kind::beta; });
    std::copy_if(beta + 1, other.arguments.end(), std::back_inserter(made.arguments),
                 [](const Argument& x) { return x.kind != Kind::tensor_map; });
    made.kernel.epilogue = other.kernel.epilogue;
    if (problem_.epilogue) made.kernel.defines.emplace("POINTWISE", 1);
    set_blocks(made, blocks_of_elements(columns), residues::kThreads);
    const double results = double(r_.m) * double(columns);
    const double read = r_.scheme.halves ? 4 : kExpected * double(r_.parts);
    state_work(made, results * (element_bytes() + read), results * (10 + 4 * read));
    plan_.steps.push_back(std::move(made));
  }

  /// The native product, which is one step, and what an epilogue sums.
  void add_native() {
    LaunchStep& made = native_.steps.front();
    made.role = StepRole::native;
    made.kernel.defines.emplace("CONDITIONAL", 1);
    const auto alpha = std::find_if(made.arguments.begin(), made.arguments.end(),
                                    [](const Argument& x) { return x.kind == Kind::alpha; });
    const std::vector<Argument> more = moduli();
    made.arguments.insert(alpha, more.begin(), more.end());
    add_maps(made, native_);
    made.work = {};  // it returns at once
    made.schedule = {};
    for (LaunchStep& native : native_.steps) plan_.steps.push_back(std::move(native));
  }

  const Problem& problem_;
  const Configuration& configuration_;
  const DeviceInfo& device_;
  const Sizes r_;
  Plan native_;
  const Memory memory_;
  Plan plan_;
};

}  // namespace

const KernelTemplate& multiplier() {
  static const KernelTemplate made = wgmma_template();
  return made;
}

Configuration of_multiplier(const Configuration& c) {
  Configuration made{{"SPLIT_K", 1}, {"STREAM_K", 0}, {"PROMOTE", 0}};
  for (const auto& [name, value] : c.values()) made.set(name, value);
  return made;
}

Plan make_plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  return EmulatedPlan(problem, c, device).make();
}

}  // namespace tilewise::emulated
