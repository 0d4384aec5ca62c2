#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "device/compiler.hpp"
#include "matmul/image_store.hpp"
#include "matmul/serving_parts.hpp"
#include "matmul/warnings.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/once.hpp"

namespace tilewise {

/// The files that a Matmul reads, and its compiler. Cache and compiler are opened when they are
/// first used. Thread-safe.
class Stores {
 public:
  /// Takes database, bundle, open_images, open_cache and load_compiler of `parts`.
  Stores(ServingParts& parts, const DeviceInfo& device, Warnings& warnings);

  std::optional<Database>& database() { return database_; }
  std::optional<Database>& bundle() { return bundle_; }
  /// Null if there is none.
  ImageCache* cache();
  const Compiler* compiler();
  /// Why compiler() is null.
  const std::string& no_compiler() const { return no_compiler_; }

  /// An image from the database, the bundle, the images that ship, or the cache. Damage is reported
  /// once and marked in the database.
  std::optional<Image> stored_image(const KernelSpec& kernel, const std::string& launch_revision);
  /// Changes the database, through a second connection if it is open read-only. Returns "" or the
  /// failure; "" without a database.
  std::string write(const std::function<void(Database&)>& change);

 private:
  const DeviceInfo& device_;
  Warnings& warnings_;
  /// Null if there are none.
  Database* images();

  std::optional<Database> database_, bundle_, images_;
  const bool compile_missing_;
  std::function<std::optional<Database>()> open_images_;
  std::function<std::unique_ptr<ImageCache>()> open_cache_;
  std::function<std::unique_ptr<Compiler>()> load_compiler_;
  Once images_once_, cache_once_, compiler_once_;
  std::unique_ptr<ImageCache> cache_;
  std::unique_ptr<Compiler> compiler_;
  std::string no_compiler_;
};

}  // namespace tilewise
