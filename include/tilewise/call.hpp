#pragma once
#include <cstdint>

namespace tilewise {

class PackedOperand;  // packed_operand.hpp

/// A CUDA stream (CUstream / cudaStream_t) as an opaque pointer; null is the default stream.
using Stream = void*;

/// What varies per call of one problem. Leading dimensions and strides in elements.
/// alpha and beta are host values unless the matching device pointer is set, in which case the
/// value of accumulator type is read on the device when the kernel runs. A packed operand is used
/// beside its original, which `a` and `lda` (`b` and `ldb`) go on to name; see PackedOperand.
struct Call {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1.0, beta = 0.0;
  const void* alpha_device = nullptr;
  const void* beta_device = nullptr;
  Stream stream = nullptr;
  const PackedOperand* packed_a = nullptr;
  const PackedOperand* packed_b = nullptr;
};

}  // namespace tilewise
