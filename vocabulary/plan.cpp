#include "vocabulary/plan.hpp"

#include <algorithm>
#include <array>

#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

constexpr std::array<std::string_view, 9> kRoles{
    "pack_a", "pack_b", "pack_both", "multiply", "reduce", "scale", "split", "certify", "native"};

// In the order of Argument::Kind.
constexpr std::array<std::string_view, 26> kKinds{"a",
                                                  "b",
                                                  "c",
                                                  "workspace",
                                                  "lda",
                                                  "ldb",
                                                  "ldc",
                                                  "stride_a",
                                                  "stride_b",
                                                  "stride_c",
                                                  "k",
                                                  "blocks_a",
                                                  "integer64",
                                                  "integer32",
                                                  "alpha",
                                                  "beta",
                                                  "alpha_device",
                                                  "beta_device",
                                                  "tensor_map",
                                                  "group_rows",
                                                  "operand",
                                                  "operand_ld",
                                                  "operand_stride",
                                                  "operand_value",
                                                  "counts",
                                                  "tolerance"};
static_assert(kKinds.size() == static_cast<std::size_t>(Argument::Kind::tolerance) + 1);

struct Field {
  std::uint32_t bytes, alignment;
};

Field field_of(Argument::Kind kind, DType accumulator) {
  switch (kind) {
    case Argument::Kind::integer32:
    case Argument::Kind::blocks_a:
      return {4, 4};
    case Argument::Kind::alpha:
    case Argument::Kind::beta: {
      const auto bytes = static_cast<std::uint32_t>(bytes_of(accumulator));
      return {bytes, bytes};
    }
    case Argument::Kind::tensor_map:
      return {128, 64};
    default:
      return {8, 8};
  }
}

}  // namespace

std::string to_string(const KernelSpec& kernel) {
  std::string text = kernel.source + ":" + kernel.entry;
  for (const auto& [name, value] : kernel.defines) {
    text += " " + name + "=" + std::to_string(value);
  }
  if (!kernel.epilogue.empty()) text += " | " + kernel.epilogue;
  return text;
}

std::string_view to_string(StepRole role) { return kRoles.at(static_cast<std::size_t>(role)); }

std::string_view to_string(Argument::Kind kind) {
  return kKinds.at(static_cast<std::size_t>(kind));
}

Work& Work::operator+=(const Work& other) {
  flops += other.flops;
  issued_flops += other.issued_flops;
  global_bytes += other.global_bytes;
  compulsory_bytes += other.compulsory_bytes;
  shared_bytes += other.shared_bytes;
  instructions += other.instructions;
  return *this;
}

ArgumentLayout layout_of(const std::vector<Argument>& arguments, DType accumulator) {
  ArgumentLayout layout;
  layout.offsets.reserve(arguments.size());
  std::uint32_t alignment = 1;
  for (const Argument& argument : arguments) {
    const Field field = field_of(argument.kind, accumulator);
    const std::uint32_t offset = round_up(layout.bytes, field.alignment);
    layout.offsets.push_back(offset);
    layout.bytes = offset + field.bytes;
    alignment = std::max(alignment, field.alignment);
  }
  layout.bytes = round_up(layout.bytes, alignment);
  return layout;
}

const LaunchStep* multiply_step(const Plan& plan) {
  const auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                                 [](const LaunchStep& s) { return s.role == StepRole::multiply; });
  return step == plan.steps.end() ? nullptr : &*step;
}

}  // namespace tilewise
