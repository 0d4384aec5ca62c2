#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/host/files.hpp"
#include "device/host/image_api.hpp"

namespace tilewise::host {

/// A shared library made of an image, loaded for as long as this lives. It is loaded from memory
/// and needs no file, except where a debugger or a sanitizer reads its lines.
class LoadedImage final : public LoadedKernel {
 public:
  /// Throws Error(device) for what is no image, or one of another processor or revision; nothing of
  /// such an image has run then.
  LoadedImage(const Image& image, std::uint32_t shared_bytes);
  ~LoadedImage() override;
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;

  /// A CPU's compiler tells neither registers nor spills.
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

}  // namespace tilewise::host
