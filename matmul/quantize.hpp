#pragma once
#include <cstddef>
#include <cstdint>

#include "device/device.hpp"
#include "tilewise/quantization.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Checks a quantization. Throws Error(invalid_argument) with the value and what is allowed.
void check_quantization(const Quantization& asked);

/// Kernels: by the type of the matrix, that of the numbers, and the width of copies.
inline constexpr std::size_t kQuantizeKernels = 12;

/// Its launch, made without an allocation. `number`: of the kernel, below kQuantizeKernels.
/// `vector`: whether copies are wide. `arguments`: QuantizeArgs of templates/plan/quantize.cu.
struct QuantizeLaunch {
  std::size_t number = 0;
  bool vector = false;
  LaunchShape shape;
  struct Arguments {
    const void* from;
    std::int64_t ld_from;
    void* to;
    std::int64_t ld_to;
    void* scales;
    std::int64_t per_row, per_block;
    std::int64_t rows, columns;
    std::int32_t split;
  } arguments;
};
/// The launch of a checked quantization that has elements.
QuantizeLaunch quantize_launch(const Quantization& asked);
/// The kernel of that launch.
KernelSpec quantize_kernel(const Quantization& asked, const QuantizeLaunch& launch);

}  // namespace tilewise
