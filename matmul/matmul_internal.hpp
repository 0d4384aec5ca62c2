#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "device/compiler.hpp"
#include "device/device.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"

namespace tilewise {

/// What a Matmul is made of. MatmulOptions become parts; tests and benchmarks hand in their own.
struct MatmulParts {
  std::unique_ptr<Device> device;
  std::optional<Database> database;  ///< winners and their images; none: defaults are served
  /// Both are called at most once, when a kernel is needed that the database has no image of.
  std::function<std::unique_ptr<ImageCache>()> open_cache;   ///< may be empty
  std::function<std::unique_ptr<Compiler>()> load_compiler;  ///< may be empty, may throw Error
  bool compile_missing = true;
  std::function<void(const std::string&)> warn;  ///< empty: standard error
  std::vector<std::string> notes = {};           ///< warnings from before there was a Matmul
};

/// What the options ask for, on a device that is open. A missing database becomes a note; one that
/// is there and cannot be read throws Error(database).
MatmulParts parts_for(std::unique_ptr<Device> device, const MatmulOptions& options);

Matmul make_matmul(MatmulParts parts);

/// A C handle of a Matmul; tilewise_destroy() ends it.
tilewise_matmul* make_handle(Matmul matmul);

}  // namespace tilewise
