#pragma once
#include <cstdint>
#include <mutex>

#include "device/cuda/context.hpp"

namespace tilewise::cuda {

/// Compares device memory and computes its checksums in place, at memory bandwidth. The kernels are
/// PTX that the driver compiles at the first call, so no compiler is needed. Thread-safe;
/// comparisons run one at a time.
class ByteComparison {
 public:
  explicit ByteComparison(const PrimaryContext& context) : context_(context) {}
  ~ByteComparison();
  ByteComparison(const ByteComparison&) = delete;
  ByteComparison& operator=(const ByteComparison&) = delete;

  /// Waits for the work on `stream`. False when bytes differ, when the driver refuses the kernel,
  /// and when a pointer or `bytes` is not a multiple of a word. Throws Error(device).
  bool known_equal(const void* x, const void* y, std::int64_t bytes, CUstream stream);

  /// Device::add_checksum(). False when the driver refuses the kernel, and when a pointer or
  /// `bytes` is not a multiple of a word. Throws Error(device).
  bool add_checksum(const void* from, std::int64_t bytes, void* sum, CUstream stream);

 private:
  bool load();
  void launch(CUfunction kernel, std::int64_t words, void** parameters, CUstream stream) const;

  const PrimaryContext& context_;
  std::mutex mutex_;  // guards all members below
  bool tried_ = false;
  CUmodule module_ = nullptr;
  CUfunction compare_ = nullptr, checksum_ = nullptr;
  CUdeviceptr differ_ = 0;  ///< a word that the kernel sets on a difference
};

}  // namespace tilewise::cuda
