#include "matmul/image_store.hpp"

#include <chrono>
#include <thread>

#include "templates/sources.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr auto kClaimPoll = std::chrono::milliseconds(20);

/// The claim on one image in a database that other processes use too. Storing the image releases it
/// as well; releasing twice does no harm.
class Claim {
 public:
  Claim(Database& database, const KernelSpec& kernel, const Target& target)
      : database_(database), kernel_(kernel), target_(target) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (!held_) return;
    try {
      database_.release_claim(kernel_, target_);
    } catch (...) {  // a claim left behind grows stale and is taken over
    }
  }
  /// Whether to go on. A cache that cannot be written cannot be waited for either.
  bool take() {
    try {
      return held_ = database_.claim_image(kernel_, target_);
    } catch (const Error&) {
      return true;
    }
  }

 private:
  Database& database_;
  const KernelSpec& kernel_;
  const Target& target_;
  bool held_ = false;
};

std::optional<Image> look_in(const Database* database, const KernelSpec& kernel,
                             const Target& target, const std::string& launch_revision,
                             const std::string& source_hash) {
  if (!database) return std::nullopt;
  auto image = database->image(kernel, target, launch_revision);
  if (image && !source_hash.empty() && image->source_hash != source_hash) return std::nullopt;
  return image;
}

}  // namespace

std::optional<Image> ImageStore::stored(const KernelSpec& kernel, const Target& target,
                                        const std::string& launch_revision,
                                        const std::string& source_hash) const {
  std::optional<Image> image = look_in(database_, kernel, target, launch_revision, source_hash);
  if (!image) image = look_in(cache_, kernel, target, launch_revision, source_hash);
  return image;
}

ImageStore::Made ImageStore::make(const KernelSpec& kernel, const Target& target,
                                  const std::string& launch_revision) const {
  const std::string hash = compiler_ ? source_hash(kernel, compiler_->identity()) : "";
  const auto find = [&]() -> std::optional<Made> {
    std::optional<Image> image = stored(kernel, target, launch_revision, hash);
    if (!image) return std::nullopt;
    std::string log = image->log;
    return Made{std::move(image), std::move(log), false};
  };
  if (std::optional<Made> found = find()) return std::move(*found);
  if (!compiler_)
    throw Error(ErrorKind::compiler, "no image of " + to_string(kernel) + " for " +
                                         to_string(target) +
                                         " is stored, and there is no compiler to make it");
  if (!cache_ || cache_->read_only()) return compile(kernel, target, launch_revision, hash);

  // One process compiles, the others wait for its image.
  Claim claim(*cache_, kernel, target);
  while (!claim.take()) {
    std::this_thread::sleep_for(kClaimPoll);
    if (std::optional<Made> found = find()) return std::move(*found);
  }
  if (std::optional<Made> found = find()) return std::move(*found);  // made just before the claim
  Made made = compile(kernel, target, launch_revision, hash);
  if (made.image) keep(*made.image, made.log);
  return made;
}

ImageStore::Made ImageStore::compile(const KernelSpec& kernel, const Target& target,
                                     const std::string& launch_revision,
                                     const std::string& hash) const {
  const KernelSource& source = kernel_source(kernel.source);
  CompileResult result = compiler_->compile({kernel, source.text, source.headers, target});
  if (result.image) {
    result.image->kernel = kernel;
    result.image->target = target;
    result.image->source_hash = hash;
    result.image->launch_revision = launch_revision;
  }
  return {std::move(result.image), std::move(result.log), true};
}

/// A cache that cannot be written (a full disk, say) costs a compile next time, not this product.
void ImageStore::keep(const Image& image, std::string& log) const {
  try {
    cache_->put_image(image);
  } catch (const Error& error) {
    log += std::string(log.empty() ? "" : "\n") + "not kept: " + error.what();
  }
}

}  // namespace tilewise
