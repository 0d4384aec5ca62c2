#include "templates/families/families.hpp"
#include "templates/families/small/numbers.hpp"
#include "templates/plan/multiply_plan.hpp"

namespace tilewise {
namespace {

using small::Small;

bool supports(const Problem& problem, const DeviceInfo& device) {
  return supports_any(problem, device) && problem.m <= small::kLargest &&
         problem.n <= small::kLargest && problem.k <= small::kLargest;
}

ThreadWork thread_work(const Small& s, const DeviceInfo& device) {
  ThreadWork thread;
  thread.shared_loads = s.a.reads() + s.b.reads();
  const double threads = s.product_threads();
  const double copies_a = s.a.pieces() / threads, copies_b = s.b.pieces() / threads;
  thread.global_loads = copies_a + copies_b;
  thread.shared_stores = (s.a.async(device) ? 0 : copies_a) + (s.b.async(device) ? 0 : copies_b);
  thread.result_stores = double(s.thread_m) * s.thread_n / s.vector_c;
  thread.steps = s.k;
  thread.unrolled = s.depth * s.unroll;
  thread.registers = s.registers(device);
  thread.resident_blocks = s.blocks;
  return thread;
}

Plan plan(const Problem& problem, const Configuration& c, const DeviceInfo& device) {
  const Small s(problem, c);
  MultiplyShape shape;
  shape.kernel = kernel_of("small.cu", "small", c);
  for (const auto& [name, value] : {std::pair{"SIZE_M", s.m},
                                    {"SIZE_N", s.n},
                                    {"SIZE_K", s.k},
                                    {"BYTES_A", s.a.bytes()},
                                    {"BYTES_B", s.b.bytes()},
                                    {"A_ASYNC", int(s.a.async(device))},
                                    {"B_ASYNC", int(s.b.async(device))}})
    shape.kernel.defines.emplace(name, value);
  shape.tile_m = s.m;
  shape.tile_n = s.n;
  shape.tile_k = s.k;
  shape.threads = s.product_threads();
  shape.shared_bytes = static_cast<std::uint32_t>(s.shared_bytes());
  shape.thread = thread_work(s, device);
  Plan made = multiply_plan(problem, std::move(shape));
  // A block computes several products; multiply_plan() assumed a block for each part of one.
  for (LaunchStep& step : made.steps) {
    if (step.role != StepRole::multiply) continue;
    step.grid.x = static_cast<std::uint32_t>(s.blocks_in_all(problem));
    step.block.x = static_cast<std::uint32_t>(s.threads());
    step.arguments.push_back({Argument::Kind::integer32, s.in_all(problem)});
  }
  return made;
}

/// Whether the configuration is valid with this value, and small enough in shared memory that every
/// device runs several blocks on a multiprocessor.
bool keeps(const Problem& problem, const DeviceInfo& device, Configuration c, const char* name,
           int value) {
  constexpr int ease = 24 * 1024;
  c.set(name, value);
  const Small s(problem, c);
  if (s.products > 1 && s.shared_bytes() > ease) return false;
  for (const Constraint& constraint : small::constraints())
    if (!constraint.for_search_only && !constraint.holds({problem, c, device})) return false;
  return true;
}

/// 16 sums a thread where C is large enough, the widest valid reads and stores, and up to two warps
/// of products in a group where the batch fills the device.
Configuration default_configuration(const Problem& problem, const DeviceInfo& device) {
  const bool large = problem.m * problem.n >= 256;
  Configuration c{{"THREAD_M", large ? 4 : 2},
                  {"THREAD_N", 4},
                  {"FRAGMENT_K", 1},
                  {"UNROLL", 1},
                  {"SPLIT_M", 1},
                  {"PRODUCTS", 1},
                  {"GROUPS", 1},
                  {"SQUARES", 0},
                  {"PAD_A", 0},
                  {"PAD_B", 0},
                  {"VECTOR_C", 1},
                  {"BLOCKS_PER_SM", 1}};
  const int threads = Small(problem, c).product_threads();
  const auto widest = [&](const char* name, std::initializer_list<int> values) {
    for (const int value : values)
      if (keeps(problem, device, c, name, value)) c.set(name, value);
  };
  widest("FRAGMENT_K", {2, 4});
  widest("VECTOR_C", {2, 4});
  for (const int products : {2, 4, 8, 16, 32})
    if (products * threads <= 64 &&
        problem.batch >= std::int64_t{4} * products * device.multiprocessors)
      widest("PRODUCTS", {products});
  c.set("UNROLL", 8 / c.at("FRAGMENT_K"));
  return c;
}

}  // namespace

KernelTemplate small_template() {
  KernelTemplate t;
  t.name = "small";
  t.summary = "many products of at most 64x64x64 at once, several in a block";
  t.parameters = small::parameters();
  t.constraints = small::constraints();
  t.supports = supports;
  t.sum_order = [](const Problem& problem, const Configuration&, const DeviceInfo&) {
    return std::optional(chain_of(problem));
  };
  t.plan = plan;
  t.default_configuration = default_configuration;
  t.tile_levels = [](const Problem& problem, const Configuration& c) {
    const Small s(problem, c);
    const bool several = s.products * s.groups > 1;
    return std::vector<TileLevel>{
        {"block", s.m, s.n, several ? "a block does several products" : ""},
        {"thread", s.thread_m, s.thread_n}};
  };
  t.size_specialised = true;
  // An image serves one size: not worth a compilation for a single product.
  t.default_rank = [](const Problem& problem) { return is_batched(problem) ? 0 : 40; };
  return t;
}

}  // namespace tilewise
