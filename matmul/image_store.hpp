#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "device/compiler.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// How long make() may wait while another process or thread compiles the same image.
struct Patience {
  /// After that it compiles the image itself.
  double seconds = std::numeric_limits<double>::infinity();
  /// True ends the wait without an image. May be empty.
  std::function<bool()> stopped = {};
};

/// Where images come from: the database, its cache, or the compiler - in that order. Thread-safe.
class ImageStore {
 public:
  /// Any of the three may be null. `cache` takes compiled images that are nobody's finalist;
  /// without one, what is compiled is kept by the caller or not at all.
  ImageStore(Database* database, ImageCache* cache, const Compiler* compiler)
      : database_(database), cache_(cache), compiler_(compiler) {}

  /// A stored image whose launch revision matches. With `source_hash` given, it must match too.
  std::optional<Image> stored(const KernelSpec& kernel, const Target& target,
                              const std::string& launch_revision,
                              const std::string& source_hash = "") const;

  struct Made {
    std::optional<Image> image;
    std::string log;        ///< why not, when there is none
    bool compiled = false;  ///< false: it was stored
    bool stopped = false;   ///< the wait for another's image was ended by Patience::stopped
  };
  /// Stored with the current source hash, else compiled (and put into the cache). Processes that
  /// share a cache compile an image once: the others wait for it, as long as `patience` says.
  /// Throws Error(compiler) when a compile is needed and there is no compiler, and what
  /// Compiler::compile() throws.
  Made make(const KernelSpec& kernel, const Target& target, const std::string& launch_revision,
            const Patience& patience = {}) const;

  /// Compiled, whatever is stored, and put into the cache: for an image that does not load.
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
