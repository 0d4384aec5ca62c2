#pragma once
#include <cstdint>
#include <mutex>

#include "device/cuda/context.hpp"

namespace tilewise::cuda {

/// Compares device memory in place, at memory bandwidth. The kernel is PTX that the driver compiles
/// at the first comparison, so no compiler is needed. Thread-safe; comparisons run one at a time.
class ByteComparison {
 public:
  explicit ByteComparison(const PrimaryContext& context) : context_(context) {}
  ~ByteComparison();
  ByteComparison(const ByteComparison&) = delete;
  ByteComparison& operator=(const ByteComparison&) = delete;

  /// Waits for the work on `stream`. False when bytes differ, when the driver refuses the kernel,
  /// and when a pointer or `bytes` is no multiple of a word. Throws Error(device).
  bool known_equal(const void* x, const void* y, std::int64_t bytes, CUstream stream);

 private:
  bool load();

  const PrimaryContext& context_;
  std::mutex mutex_;  // guards all below
  bool tried_ = false;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr differ_ = 0;  ///< a word that the kernel sets on a difference
};

}  // namespace tilewise::cuda
