#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <compare>
#include <concepts>
#include <cstdint>
#include <span>

#include "tilewise/epilogue.hpp"

struct CUstream_st;  // of CUDA: CUstream and cudaStream_t are pointers to it

namespace tilewise {

class PackedOperand;  // packed_operand.hpp

/// A CUDA stream. CUstream, cudaStream_t and nullptr (the default stream) convert to it. Any other
/// pointer, such as a matrix in the place of the stream, does not compile.
class Stream {
 public:
  constexpr Stream() = default;
  constexpr Stream(CUstream_st* handle) noexcept : handle_(handle) {}
  /// Takes a stream that the caller keeps as void*.
  explicit Stream(std::same_as<void*> auto handle) noexcept
      : handle_(static_cast<CUstream_st*>(handle)) {}

  constexpr CUstream_st* handle() const noexcept { return handle_; }
  /// False for the default stream.
  constexpr explicit operator bool() const noexcept { return handle_ != nullptr; }
  auto operator<=>(const Stream&) const = default;

 private:
  CUstream_st* handle_ = nullptr;
};

/// The values that vary between calls of one problem. Leading dimensions and strides are in
/// elements.
///
/// alpha and beta are host values. If alpha_device (beta_device) is set, the kernel reads the value
/// from there instead, in the accumulator's type; the value may not change before the product is
/// done. With a packed operand, `a`, `lda` and `stride_a` (`b`, ...) still describe the original;
/// see PackedOperand.
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
  /// Device memory with a number for each product of a grouped problem (Grouping), which the host
  /// does not read: so a CUDA graph can be replayed with other numbers. A number outside of 0 to m
  /// (k) counts as the nearest inside, an end before an earlier one as the end of no rows: no row
  /// outside of C is ever written, and no row by two products.
  const std::int32_t* group_rows = nullptr;
  /// Of the problem's epilogue, by slot; the array is read during the call only.
  std::span<const EpilogueOperand> operands = {};
  /// Device memory of the caller, which no one else uses until the product is done. A product that
  /// needs a workspace takes it from here if it is aligned to 256 bytes and suffices, as in a graph
  /// that may not allocate.
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  /// Of an emulated product in f64: an element may be off by this much relative to |A| |B|, if that
  /// is more than the mode's bound (MathMode::emulated); where the native product runs, its bound
  /// holds. The product then takes less time. 0 to 1; 0: the mode's bound. Others do not read it.
  double accuracy = 0;
};

}  // namespace tilewise
