#include "templates/descriptors.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

std::span<const KernelTemplate> catalog() {
  static const std::vector<KernelTemplate> table = {
      mma_template(),    small_template(), simt_template(),
      skinny_template(), tiled_template(), naive_template(),
  };
  return table;
}

const KernelTemplate& find_template(std::string_view name) {
  std::string known;
  for (const KernelTemplate& kernel : catalog()) {
    if (kernel.name == name) return kernel;
    known += (known.empty() ? "" : ", ") + kernel.name;
  }
  throw Error(ErrorKind::not_found,
              "no kernel template '" + std::string(name) + "'; there are: " + known);
}

bool supports_strict_f32(const Problem& problem, const DeviceInfo&) {
  return problem.a == DType::f32 && problem.b == DType::f32 && problem.c == DType::f32 &&
         problem.accumulator == DType::f32 && problem.math == MathMode::strict &&
         problem.batch >= 1 && problem.m >= 0 && problem.n >= 0 && problem.k >= 0;
}

bool supports_any(const Problem& problem, const DeviceInfo&) {
  return product_kind(problem) && problem.math == MathMode::strict && problem.batch >= 1 &&
         problem.m >= 0 && problem.n >= 0 && problem.k >= 0;
}

}  // namespace tilewise
