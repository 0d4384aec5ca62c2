#pragma once
#include <memory>

#include "device/cuda/context.hpp"
#include "device/device.hpp"

namespace tilewise::cuda {

/// An image loaded into a context. Immutable after construction.
class CudaKernel final : public LoadedKernel {
 public:
  CudaKernel(std::shared_ptr<const PrimaryContext> context, const Image& image);
  ~CudaKernel() override;
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  ResourceUsage usage() const override;
  CUfunction function() const { return function_; }
  const std::string& name() const { return name_; }

  /// Permits launches with `bytes` of dynamic shared memory; needed above 48 KB.
  void allow_shared(std::uint32_t bytes, int device_limit);
  /// Permits launches with clusters of more than 8 blocks, which some GPUs of a family cannot
  /// place.
  void allow_large_clusters();

 private:
  int attribute(CUfunction_attribute which) const;

  std::shared_ptr<const PrimaryContext> context_;
  std::string name_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace tilewise::cuda
