#include "templates/families/families.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {

namespace {

constexpr std::size_t kMostRows = 64;  // reserved, so that pointers to rows stay valid

std::vector<KernelTemplate>& rows() {
  static std::vector<KernelTemplate> all = [] {
    std::vector<KernelTemplate> made;
    made.reserve(kMostRows);
#define TILEWISE_ADD(name) made.push_back(name##_template());
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
  rows().push_back(std::move(added));
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

bool has_one_operand_type(const Problem& problem) {
  return product_kind(problem) && problem.a.type == problem.b.type && problem.batch >= 1 &&
         problem.m >= 0 && problem.n >= 0 && problem.k >= 0;
}

bool supports_strict_f32(const Problem& problem, const DeviceInfo&) {
  return has_one_operand_type(problem) && problem.a.type == DType::f32 &&
         problem.math == MathMode::strict;
}

bool supports_any(const Problem& problem, const DeviceInfo&) {
  return has_one_operand_type(problem) &&
         (problem.math == MathMode::strict || problem.math == MathMode::fast);
}

}  // namespace tilewise
