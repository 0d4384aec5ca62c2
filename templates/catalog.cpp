#include <algorithm>

#include "templates/families/families.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {

namespace {

constexpr std::size_t kMostRows = 64;  // reserved, so that pointers to rows stay valid

/// Adds the conditions of problems that only some have.
KernelTemplate with_conditions(KernelTemplate made) {
  std::vector<std::string> one, zero;
  for (const Parameter& parameter : made.parameters) {
    if (parameter.name == "SPLIT_K") one.push_back(parameter.name);
    if (parameter.name == "STREAM_K" || parameter.name == made.specialises)
      zero.push_back(parameter.name);
  }
  std::vector<std::string> reads = one;
  reads.insert(reads.end(), zero.begin(), zero.end());
  made.supports = [supports = made.supports, grouped = made.grouped, scales = made.scales](
                      const Problem& problem, const DeviceInfo& device) {
    const bool can = !is_grouped(problem) || (grouped && unsupported_grouping(problem).empty());
    const bool can_scale = !has_scales(problem) || (scales && unsupported_scales(problem).empty());
    return can && can_scale && supports(problem, device);
  };
  made.constraints.push_back(
      {"grouped", reads,
       "k has one part and sizes are no constants, where the products of a batch have different "
       "numbers of rows",
       [one, zero](const ConstraintInput& in) {
         const auto is = [&](int value) {
           return
               [&in, value](const std::string& name) { return in.configuration.at(name) == value; };
         };
         return !is_grouped(in.problem) || (std::all_of(one.begin(), one.end(), is(1)) &&
                                            std::all_of(zero.begin(), zero.end(), is(0)));
       },
       false, is_grouped});
  made.constraints.push_back(
      {"sum_order", made.sum_order_reads,
       "the products of an element of C are added in the order that the problem asks for",
       [order_of = made.sum_order](const ConstraintInput& in) {
         return !in.problem.order ||
                order_of(in.problem, in.configuration, in.device) == *in.problem.order;
       },
       false, [](const Problem& problem) { return problem.order != nullptr; }});
  return made;
}

std::vector<KernelTemplate>& rows() {
  static std::vector<KernelTemplate> all = [] {
    std::vector<KernelTemplate> made;
    made.reserve(kMostRows);
#define TILEWISE_ADD(name) made.push_back(with_conditions(name##_template()));
    TILEWISE_FAMILIES(TILEWISE_ADD)
#undef TILEWISE_ADD
    return made;
  }();
  return all;
}

}  // namespace

std::span<const KernelTemplate> catalog() { return rows(); }

void add_template(KernelTemplate added) {
  for (const KernelTemplate& kernel : rows())
    if (kernel.name == added.name)
      throw Error(ErrorKind::invalid_argument, "a kernel template '" + added.name + "' exists");
  if (rows().size() == kMostRows)
    throw Error(ErrorKind::invalid_argument,
                "the catalog has at most " + std::to_string(kMostRows) + " kernel templates");
  rows().push_back(with_conditions(std::move(added)));
}

const KernelTemplate& find_template(std::string_view name) {
  if (const KernelTemplate* kernel = known_template(name)) return *kernel;
  throw Error(ErrorKind::not_found, "no kernel template '" + std::string(name) + "'; there are: " +
                                        join(catalog(), ", ", &KernelTemplate::name));
}

const KernelTemplate* known_template(std::string_view name) {
  for (const KernelTemplate& kernel : catalog())
    if (kernel.name == name) return &kernel;
  return nullptr;
}

Plan plan_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return find_template(candidate.kernel_template).plan(problem, candidate.configuration, device);
}

std::optional<SumOrder> sum_order_of(const Candidate& candidate, const Problem& problem,
                                     const DeviceInfo& device) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  return kernel.sum_order(problem, with_added(kernel, candidate.configuration), device);
}

std::vector<const KernelTemplate*> by_default_rank(const Problem& problem) {
  std::vector<const KernelTemplate*> ranked;
  for (const KernelTemplate& kernel : catalog()) ranked.push_back(&kernel);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const KernelTemplate* x, const KernelTemplate* y) {
                     return x->default_rank(problem) < y->default_rank(problem);
                   });
  return ranked;
}

SumOrder default_order(const Problem& key, const DeviceInfo& device) {
  Problem usual = key;
  usual.m = 4096;  // large products have the most to lose
  // Narrow weights are not packed: where rows of B are not aligned, only some kernels read them.
  if (has_narrow_b(usual)) usual.b.alignment = natural_alignment(usual).b;
  for (const KernelTemplate* kernel : by_default_rank(usual)) {
    usual.order = nullptr;
    const auto configuration = default_for(*kernel, usual, device);
    auto of = configuration ? kernel->sum_order(usual, *configuration, device) : std::nullopt;
    if (!of) continue;
    of->part = 0, of->rows = 1;
    usual.order = interned(*of);
    if (default_for(*kernel, usual, device)) return *of;
  }
  throw Error(ErrorKind::unsupported, "no kernel template with a fixed order of sums does " +
                                          to_string(usual) + " on " + device.name);
}

bool has_product(const Problem& problem) {
  return product_kind(problem) && problem.batch >= 1 && problem.m >= 0 && problem.n >= 0 &&
         problem.k >= 0;
}

bool has_one_operand_type(const Problem& problem) {
  return has_product(problem) && problem.a.type == problem.b.type;
}

bool has_narrow_b(const Problem& problem) {
  return has_product(problem) && problem.a.type != problem.b.type;
}

bool supports_strict_f32(const Problem& problem, const DeviceInfo&) {
  return has_one_operand_type(problem) && problem.a.type == DType::f32 &&
         (problem.math == MathMode::strict || problem.math == MathMode::emulated);
}

bool supports_any(const Problem& problem, const DeviceInfo&) {
  return has_one_operand_type(problem) &&
         (problem.math == MathMode::strict || problem.math == MathMode::fast ||
          problem.math == MathMode::emulated);
}

}  // namespace tilewise
