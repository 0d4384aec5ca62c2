#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "tilewise/packed_operand.hpp"
#include "tilewise/plan.hpp"

namespace tilewise {

/// What a plan's pack step makes of an operand. Equal ones make the same bytes of the same operand,
/// whatever plans they are of.
struct Packing {
  StepRole role = StepRole::pack_b;
  KernelSpec kernel;
  Dim3 grid, block;
  std::vector<Argument> arguments;  ///< the workspace argument's offset is 0
  std::int64_t bytes = 0;
  bool operator==(const Packing&) const = default;
};

struct PackedOperand::Contents {
  StepRole role = StepRole::pack_b;
  DType type = DType::f32;
  const void* original = nullptr;
  std::int64_t ld = 0, stride = 0;
  // With a copy; its memory is freed before its device goes.
  std::shared_ptr<Device> device = {};
  std::optional<Packing> packing = {};
  DeviceBuffer memory = {};
};

}  // namespace tilewise
