#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "templates/families/families.hpp"
#include "templates/families/residues/layout.hpp"
#include "templates/parts/moduli_layout.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/space/common_constraints.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

using Kind = Argument::Kind;

/// The family whose kernel multiplies residues, and the one of the native product.
const KernelTemplate& multiplier() {
  static const KernelTemplate made = wgmma_template();
  return made;
}
const KernelTemplate& native() {
  static const KernelTemplate made = mma_template();
  return made;
}

constexpr std::int64_t kRowBytes = 128;  // rows of matrices of bytes are multiples of it
constexpr std::int64_t kColumns = 16;    // as are rows of results
/// Moduli that data of one magnitude need, for the cost model.
constexpr int kExpected = 15;
/// The certificate's bound over sqrt(k) 2^-53. With this value the median error is below cuBLAS's
/// (bench/results/h200_emulated.json).
constexpr double kOfBound = 0.625;
/// The most chunks of C's columns.
constexpr std::int64_t kMostChunks = 16;

/// A problem's products of residues, of as many moduli as there are: how k is cut into parts, and
/// C's columns into chunks.
struct Residues {
  static constexpr int most = residues::kMost;  ///< moduli
  std::int64_t m, n, k, parts, depth, ld;
  std::int64_t columns;  ///< of a chunk

  Residues(const Problem& p, const DeviceInfo& device)
      : m(p.m),
        n(p.n),
        k(p.k),
        parts(std::max<std::int64_t>(1, ceil_div(p.k, std::int64_t{residues::kMostDepth}))),
        depth(parts == 1 ? p.k : round_up(ceil_div(p.k, parts), kRowBytes)),
        ld(round_up(std::max<std::int64_t>(1, depth), kRowBytes)) {
    // As few chunks as leave the workspace below a quarter of the memory.
    columns = n;
    for (std::int64_t chunks = 2; chunks <= kMostChunks && !fits(device); ++chunks)
      columns = round_up(ceil_div(n, chunks), 256);
  }
  std::int64_t padded_columns() const { return round_up(columns, kColumns); }
  /// Of one modulus, or of the magnitudes.
  std::int64_t bytes_a() const { return parts * m * ld; }
  std::int64_t bytes_b() const { return parts * padded_columns() * ld; }
  std::int64_t bytes_c() const { return parts * m * padded_columns(); }
  /// Products of magnitudes, of 4 bytes, lie where those of residues will.
  std::int64_t results_bytes() const { return most * bytes_c(); }
  double workspace() const {
    return most * (double(bytes_a()) + double(bytes_b())) + double(results_bytes());
  }
  bool fits(const DeviceInfo& device) const {
    return device.memory_bytes <= 0 || workspace() <= double(device.memory_bytes) / 4;
  }

  /// The products of a chunk's residues; `magnitudes`: of the magnitudes.
  Problem products(std::int64_t of_columns, bool magnitudes) const {
    Problem p;
    p.m = m;
    p.n = round_up(of_columns, kColumns);
    p.k = depth;
    p.a.type = p.b.type = DType::i8;
    p.b.transposed = true;
    p.c.type = magnitudes ? DType::i32 : DType::i8;
    p.accumulator = DType::i32;
    p.batch = (magnitudes ? 1 : most) * parts;
    return p;
  }
  Problem products() const { return products(columns, false); }
};

/// The configuration of wgmma for the products.
Configuration of_multiplier(const Configuration& c) {
  Configuration made{{"SPLIT_K", 1}, {"STREAM_K", 0}, {"PROMOTE", 0}};
  for (const auto& [name, value] : c.values()) made.set(name, value);
  return made;
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  return has_one_operand_type(problem) && problem.math == MathMode::emulated &&
         problem.a.type == DType::f64 && !is_batched(problem) && problem.k >= 1 &&
         has(device.features, Feature::wgmma) && has(device.features, Feature::mma_f64) &&
         std::max({problem.m, problem.n, problem.k}) <= kMostByTma;
}

/// A configuration of the native product with one step: the fastest large ones of an H200 in f64
/// have these values (portfolios/nvidia-h200.json).
Configuration of_native(const Problem& problem, const DeviceInfo& device) {
  Configuration c = native().default_configuration(problem, device);
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
  return is_valid(native(), problem, c, device) ? c : usual;
}

/// The parts of the workspace.
struct Memory {
  std::int64_t rows, columns, needed, a, b, c, all;
  /// from: bytes that other steps use.
  Memory(const Residues& r, std::int64_t all_columns, std::int64_t from) {
    all = round_up(from, std::int64_t{256});
    const auto take = [&](std::int64_t bytes) {
      return std::exchange(all, all + round_up(bytes, std::int64_t{256}));
    };
    rows = take(r.m * residues::kScaleBytes);
    columns = take(all_columns * residues::kScaleBytes);
    needed = take(sizeof(std::int32_t));
    a = take(r.most * r.bytes_a());
    b = take(r.most * r.bytes_b());
    c = take(r.results_bytes());
  }
};

/// Makes the plan, step by step.
class ResiduesPlan {
 public:
  ResiduesPlan(const Problem& problem, const Configuration& c, const DeviceInfo& device)
      : problem_(problem),
        configuration_(c),
        device_(device),
        r_(problem, device),
        native_(native().plan(problem, of_native(problem, device), device)),
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
    return {
        {Kind::workspace, memory_.needed}, {Kind::integer32, r_.most}, {Kind::integer32, r_.parts}};
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
  /// The expected share of the moduli.
  static constexpr double kShare = double(kExpected) / Residues::most;

  void add_scales() {
    const residues::ScalesLayout a{!problem_.a.transposed}, b{problem_.b.transposed};
    const std::int64_t blocks_a = ceil_div(r_.m, a.rows());
    LaunchStep made = step(StepRole::scale, "scales");
    made.kernel.defines = {{"A_TRANSPOSED", problem_.a.transposed},
                           {"B_TRANSPOSED", problem_.b.transposed}};
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
    state_work(made, elements(r_.n) * 8, elements(r_.n) * 12);
    plan_.steps.push_back(std::move(made));
  }

  /// with_a: A's matrices, too.
  void add_planes(std::int64_t first, std::int64_t columns, bool magnitudes, bool with_a) {
    const residues::PlanesLayout a{!problem_.a.transposed}, b{problem_.b.transposed};
    const auto blocks = [&](const residues::PlanesLayout& layout, std::int64_t rows) {
      return ceil_div(rows, std::int64_t{layout.rows()}) *
             ceil_div(r_.depth, std::int64_t{layout.depth()}) * r_.parts;
    };
    const std::int64_t to_columns = round_up(columns, kColumns);
    const std::int64_t blocks_a = with_a ? blocks(a, r_.m) : 0;
    LaunchStep made = step(StepRole::split, "planes");
    made.kernel.defines = {{"A_TRANSPOSED", problem_.a.transposed},
                           {"B_TRANSPOSED", problem_.b.transposed},
                           {"VECTOR_A", problem_.a.alignment == 16 ? 2 : 1},
                           {"VECTOR_B", problem_.b.alignment == 16 ? 2 : 1},
                           {"MAGNITUDES", magnitudes}};
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
                      {Kind::integer64, r_.depth},
                      {Kind::integer64, r_.ld}};
    append(made.arguments, moduli());
    made.arguments.push_back({Kind::integer32, blocks_a});
    set_blocks(made, blocks_a + blocks(b, to_columns), a.kThreads);
    const double taken = with_a ? elements(columns) : double(r_.k) * double(columns);
    const double matrices = magnitudes ? 1 : kExpected;
    state_work(made, taken * (8 + matrices), taken * (10 + 6 * matrices));
    plan_.steps.push_back(std::move(made));
  }

  /// The argument of an inner plan, with the call's operands in the workspace.
  Argument bound(const Argument& inner, const Problem& products) const {
    switch (inner.kind) {
      case Kind::a:
        return {Kind::workspace, memory_.a};
      case Kind::b:
        return {Kind::workspace, memory_.b};
      case Kind::c:
        return {Kind::workspace, memory_.c};
      case Kind::lda:
      case Kind::ldb:
        return {Kind::integer64, r_.ld};
      case Kind::ldc:
        return {Kind::integer64, products.n};
      case Kind::stride_a:
        return {Kind::integer64, r_.m * r_.ld};
      case Kind::stride_b:
        return {Kind::integer64, products.n * r_.ld};
      case Kind::stride_c:
        return {Kind::integer64, r_.m * products.n};
      case Kind::alpha:
        return {Kind::integer32, 1};
      case Kind::beta:
        return {Kind::integer32, 0};
      case Kind::alpha_device:
      case Kind::beta_device:
        return {Kind::integer64, 0};
      case Kind::k:
        return r_.parts == 1 ? inner : Argument{Kind::integer64, r_.depth};
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

  /// The products of a chunk's residues, or of its magnitudes.
  void add_products(std::int64_t columns, bool magnitudes) {
    const Problem products = r_.products(columns, magnitudes);
    Configuration c = of_multiplier(configuration_);
    if (magnitudes && !is_valid(multiplier(), products, c, device_)) {
      c = multiplier().default_configuration(products, device_);
      c.set("SPLIT_K", 1);
    }
    Plan inner = multiplier().plan(products, c, device_);
    if (inner.steps.size() != 1 || inner.workspace_bytes != 0)
      throw Error(ErrorKind::unsupported, "products of residues are one step, without a workspace");
    LaunchStep made = std::move(inner.steps.front());
    std::vector<Argument> arguments;
    for (const Argument& argument : made.arguments) {
      if (argument.kind == Kind::alpha && !magnitudes) append(arguments, moduli());
      arguments.push_back(bound(argument, products));
    }
    made.arguments = std::move(arguments);
    for (TensorMapRecipe& map : inner.tensor_maps) {
      map.base = bound(map.base, products);
      map.stride = bound(map.stride, products);
      map.batch_stride = bound(map.batch_stride, products);
    }
    add_maps(made, inner);
    if (magnitudes) {
      made.role = StepRole::certify;
    } else {
      made.kernel.defines.emplace("RESIDUES", 1);
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
    made.kernel.defines = {{"PARTS", r_.parts > 1}};
    const double tau = kOfBound * std::sqrt(double(std::max<std::int64_t>(1, r_.k))) * 0x1p-53;
    // The fields of CertifyArgs in certify.cu.
    made.arguments = {{Kind::workspace, memory_.c},
                      {Kind::workspace, memory_.rows},
                      {Kind::workspace, memory_.columns},
                      {Kind::integer64, r_.m},
                      {Kind::integer64, first},
                      {Kind::integer64, columns},
                      {Kind::integer64, round_up(columns, kColumns)},
                      {Kind::k},
                      {Kind::workspace, memory_.needed},
                      {Kind::integer64, std::bit_cast<std::int64_t>(tau)},
                      {Kind::integer32, r_.parts}};
    set_blocks(made, blocks_of_elements(columns), residues::kThreads);
    const double results = double(r_.m) * double(columns);
    state_work(made, results * 4 * double(r_.parts), results * 20);
    plan_.steps.push_back(std::move(made));
  }

  void add_combination(std::int64_t first, std::int64_t columns) {
    LaunchStep made = step(StepRole::reduce, "combine");
    made.kernel.defines.emplace("PARTS", r_.parts > 1);
    made.kernel.defines.emplace("VECTOR_C", problem_.c.alignment == 16 ? 2 : 1);
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
                      {Kind::integer64, round_up(columns, kColumns)},
                      {Kind::k}};
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
    const double moduli = kExpected * double(r_.parts);
    state_work(made, results * (8 + moduli), results * (10 + 4 * moduli));
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
  const Residues r_;
  Plan native_;
  const Memory memory_;
  Plan plan_;
};

/// wgmma's, with the values that are possible: sums are whole, and operands and C are aligned.
std::vector<Parameter> parameters() {
  std::vector<Parameter> made;
  for (Parameter parameter : multiplier().parameters) {
    const std::string& name = parameter.name;
    if (name == "SPLIT_K" || name == "STREAM_K" || name == "PROMOTE") continue;
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
    if (name == "TILE_M" || name == "TILE_N")
      keep([](int value) { return value <= 24 || value % 16 == 0; });
    if (name == "TILE_K") keep([](int value) { return value >= 64; });
    if (name == "EPILOGUE") keep([](int value) { return value == 0 || value == 2; });
    if (name == "VECTOR_C") keep([](int value) { return value <= 2; });
    made.push_back(std::move(parameter));
  }
  return made;
}

/// wgmma's constraints, of the products of residues.
std::vector<Constraint> constraints() {
  const std::vector<Parameter> known = parameters();
  std::vector<Constraint> made;
  for (const Constraint& of : multiplier().constraints) {
    Constraint constraint = of;
    constraint.concerns = nullptr;
    std::erase_if(constraint.reads, [&](const std::string& name) {
      return std::none_of(known.begin(), known.end(),
                          [&](const Parameter& parameter) { return parameter.name == name; });
    });
    constraint.holds = [of](const ConstraintInput& in) {
      const Problem products = Residues(in.problem, in.device).products();
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
       [](const ConstraintInput& in) { return Residues(in.problem, in.device).fits(in.device); }});
  return made;
}

/// Whether wgmma's constraints hold for the products of residues.
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
  const Problem products = Residues(problem, device).products();
  const Configuration of_products = multiplier().default_configuration(products, device);
  for (const auto& [name, value] : of_products.values())
    if (name != "SPLIT_K" && name != "STREAM_K" && name != "PROMOTE") c.set(name, value);
  c.set("VECTOR_C", 1);
  c.set("EPILOGUE", 2);
  if (!multiplies(products, c, device)) c.set("EPILOGUE", 0);
  if (std::min(problem.m, problem.n) < 1024) return c;
  Configuration large = c;
  for (const auto& [name, value] : {std::pair{"TILE_M", 128},
                                    {"TILE_N", 256},
                                    {"TILE_K", 128},
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

}  // namespace

KernelTemplate residues_template() {
  KernelTemplate t;
  t.name = "residues";
  t.summary = "f64 by products of 8-bit residues, checked by the GPU";
  t.parameters = parameters();
  t.constraints = constraints();
  t.supports = supports;
  t.plan = [](const Problem& problem, const Configuration& c, const DeviceInfo& device) {
    return ResiduesPlan(problem, c, device).make();
  };
  t.tensor_cores = true;
  t.tile_levels = multiplier().tile_levels;
  t.default_configuration = default_configuration;
  // Products of less than some 3000 on a side are faster by the native units.
  t.default_rank = [](const Problem& problem) { return flops_of(problem) >= 0x1p36 ? 5 : 40; };
  return t;
}

}  // namespace tilewise
