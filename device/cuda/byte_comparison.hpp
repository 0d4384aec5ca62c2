#pragma once
#include <cstdint>
#include <mutex>

#include "device/cuda/context.hpp"

namespace tilewise::cuda {

/// Compares device memory where it lies, at the memory's speed. Its kernel is PTX, which the driver
/// itself compiles at the first comparison: no compiler need be there. Thread-safe; comparisons
/// take turns.
class ByteComparison {
 public:
  explicit ByteComparison(const PrimaryContext& context) : context_(context) {}
  ~ByteComparison();
  ByteComparison(const ByteComparison&) = delete;
  ByteComparison& operator=(const ByteComparison&) = delete;

  /// Waits for what `stream` holds. False when bytes differ, and when the driver does not take the
  /// kernel or these are not whole words. Throws Error(device).
  bool surely_equal(const void* x, const void* y, std::int64_t bytes, CUstream stream);

 private:
  bool load();

  const PrimaryContext& context_;
  std::mutex mutex_;  // guards what follows
  bool tried_ = false;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr differ_ = 0;  ///< a word that the kernel sets
};

}  // namespace tilewise::cuda
