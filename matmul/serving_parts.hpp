#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "device/compiler.hpp"
#include "device/device.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise {

/// The parts of a Serving.
struct ServingParts {
  std::unique_ptr<Device> device;
  std::optional<Database> database;     ///< winners and their images
  std::optional<Database> bundle = {};  ///< further winners and images
  /// Each is called at most once, when the database has no image of a kernel.
  std::function<std::optional<Database>()> open_images = {};  ///< that ship; may be empty
  std::function<std::unique_ptr<ImageCache>()> open_cache;    ///< may be empty
  std::function<std::unique_ptr<Compiler>()> load_compiler;   ///< may be empty, may throw Error
  bool compile_missing = true;
  /// Returns the portfolio of a device, for problems that no stored record serves. Called at most
  /// once; may be empty.
  std::function<std::vector<Record>(const DeviceInfo&)> portfolio = {};
  OnMiss on_miss = OnMiss::serve;
  std::filesystem::path missed_list = {};  ///< file for OnMiss::record
  /// For OnMiss::tune: tunes a problem and puts its winner into the database. Returns "", or the
  /// reason for a failure. Called by one thread at a time. May be empty.
  std::function<std::string(const Problem&, const DeviceInfo&)> tune = {};
  std::function<void(const std::string&)> warn;  ///< empty: standard error
  std::vector<std::string> notes = {};           ///< warnings from before the construction
};

}  // namespace tilewise
