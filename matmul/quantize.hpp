#pragma once
#include <cstdint>

#include "device/device.hpp"
#include "tilewise/quantization.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Checks a quantization. Throws Error(invalid_argument) with the value and what is allowed.
void check_quantization(const Quantization& asked);

/// Its launch. `arguments`: QuantizeArgs of templates/plan/quantize.cu.
struct QuantizeLaunch {
  KernelSpec kernel;
  LaunchShape shape;
  struct Arguments {
    const void* from;
    std::int64_t ld_from;
    void* to;
    std::int64_t ld_to;
    void* scales;
    std::int64_t per_row, per_block;
    std::int64_t rows, columns;
  } arguments;
};
/// The launch of a checked quantization that has elements.
QuantizeLaunch quantize_launch(const Quantization& asked);

}  // namespace tilewise
