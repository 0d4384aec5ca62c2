#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "device/cpu/files.hpp"
#include "device/cpu/image_api.hpp"
#include "device/device.hpp"

namespace tilewise::cpu {

/// An image loaded as a shared library for the life of the object. It is loaded from memory, or
/// from a file if a debugger or a sanitizer reads its lines.
class LoadedImage final : public LoadedKernel {
 public:
  /// Throws Error(device) for a damaged image and for an image of another processor or revision,
  /// before any of its code runs.
  LoadedImage(const Image& image, std::uint32_t shared_bytes);
  ~LoadedImage() override;
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;

  /// Empty: a CPU's compiler reports neither registers nor spills.
  ResourceUsage usage() const override { return {}; }
  const tilewise_host::Exports& exports() const { return *exports_; }
  const std::string& name() const { return name_; }
  std::uint32_t shared_bytes() const { return shared_bytes_; }

 private:
  void check_mark(const Image& image) const;
  void load_from_memory(const Image& image);
  void load_from_file(const Image& image);

  std::string name_;
  std::uint32_t shared_bytes_;
  std::optional<TemporaryFolder> folder_;  ///< removed after the library is unloaded
  void* library_ = nullptr;
  const tilewise_host::Exports* exports_ = nullptr;
};

}  // namespace tilewise::cpu
