#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "db/lock_waits.hpp"
#include "device/compiler.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// Limits of make().
struct Patience {
  using Clock = BudgetClock;
  /// The longest wait while another process or thread compiles the same image. After it, make()
  /// compiles the image itself.
  double seconds = std::numeric_limits<double>::infinity();
  /// Polled during the wait; true ends the wait without an image. May be empty.
  std::function<bool()> stopped = {};
  /// No compile begins after this time. Waits for a lock on a database do not count.
  Clock::time_point latest = Clock::time_point::max();
};

/// Takes images from the database, the cache or the compiler, in that order. Thread-safe.
class ImageStore {
 public:
  /// Any of the three may be null. Compiled images go to the cache, never to the database; without
  /// a cache they are not stored.
  ImageStore(Database* database, ImageCache* cache, const Compiler* compiler)
      : database_(database), cache_(cache), compiler_(compiler) {}

  /// A stored image with this launch revision and, unless `source_hash` is empty, this source hash.
  std::optional<Image> stored(const KernelSpec& kernel, const Target& target,
                              const std::string& launch_revision,
                              const std::string& source_hash = "") const;

  struct Made {
    std::optional<Image> image;
    std::string log;        ///< the reason, when there is no image
    bool compiled = false;  ///< false: the image was stored
    bool stopped = false;   ///< Patience::stopped ended the wait
    bool late = false;      ///< not compiled because of Patience::latest
  };
  /// The stored image with the current source hash; otherwise a compiled one, which is put into the
  /// cache. Processes that share a cache compile an image once; the others wait for it within
  /// `patience`. Throws Error(compiler) if a compile is needed and there is no compiler, and the
  /// errors of Compiler::compile().
  Made make(const KernelSpec& kernel, const Target& target, const std::string& launch_revision,
            const Patience& patience = {}) const;

  /// Compiles without looking for a stored image and puts the result into the cache. For a stored
  /// image that does not load.
  Made make_anew(const KernelSpec& kernel, const Target& target,
                 const std::string& launch_revision) const;

  const Compiler* compiler() const { return compiler_; }

 private:
  Made compile(const KernelSpec& kernel, const Target& target, const std::string& launch_revision,
               const std::string& hash) const;
  void keep(Made& made) const;

  Database* database_;
  ImageCache* cache_;
  const Compiler* compiler_;
};

}  // namespace tilewise
