#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "device/device.hpp"
#include "device/fork.hpp"
#include "tilewise/packed_operand.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

struct PackedOperand::Contents {
  StepRole role = StepRole::pack_b;
  DType type = DType::f32;
  const void* original = nullptr;
  std::int64_t ld = 0, stride = 0;
  const std::uint32_t of_process = fork_generation();
  // Set if there is a copy. `memory` is freed before `device`.
  std::shared_ptr<Device> device = {};
  std::optional<Packing> packing = {};
  std::uint64_t packing_key = 0;  ///< key of `packing` alone, see key_of()
  DeviceBuffer memory = {};
};

}  // namespace tilewise
