#include "matmul/image_store.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "db/sqlite_error.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

constexpr auto kClaimPoll = std::chrono::milliseconds(20);
constexpr auto kClaimRenewal = std::chrono::duration<double>(Database::kStaleClaimSeconds / 4);

/// The claim on an image in a cache shared with other processes. It is renewed while this object
/// exists and released by the destructor. Storing the image releases it too; a second release has
/// no effect.
class Claim {
 public:
  Claim(ImageCache& cache, const KernelSpec& kernel, const Target& target)
      : cache_(cache), kernel_(kernel), target_(target) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (!renewal_.joinable()) return;
    renewal_.request_stop();
    renewal_.join();
    cache_.release_claim(kernel_, target_);
  }

  /// False while another process holds the claim. True without a usable cache.
  bool take() {
    const ImageCache::Claim claim = cache_.claim(kernel_, target_);
    if (claim == ImageCache::Claim::held)
      renewal_ = std::jthread([this](const std::stop_token& stop) { renew(stop); });
    return claim != ImageCache::Claim::of_another;
  }

 private:
  void renew(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    while (!ended_.wait_for(lock, stop, kClaimRenewal, [&] { return stop.stop_requested(); }))
      cache_.renew_claim(kernel_, target_);
  }

  ImageCache& cache_;
  const KernelSpec& kernel_;
  const Target& target_;
  std::condition_variable_any ended_;
  std::jthread renewal_;
};

}  // namespace

std::optional<Image> ImageStore::stored(const KernelSpec& kernel, const Target& target,
                                        const std::string& launch_revision,
                                        const std::string& source_hash) const {
  const auto fits = [&](const std::optional<Image>& image) {
    return image && (source_hash.empty() || image->source_hash == source_hash);
  };
  std::optional<Image> image;
  try {
    if (database_) image = database_->image(kernel, target, launch_revision);
  } catch (const SqliteError& error) {  // a damaged page: another source may have the image
    if (!error.damaged()) throw;
    database_->warn(error.what());
  }
  if (!fits(image) && cache_) image = cache_->image(kernel, target, launch_revision);
  return fits(image) ? std::move(image) : std::nullopt;
}

ImageStore::Made ImageStore::make(const KernelSpec& kernel, const Target& target,
                                  const std::string& launch_revision,
                                  const Patience& patience) const {
  const std::string hash = compiler_ ? source_hash(kernel, compiler_->identity()) : "";
  const auto find = [&]() -> std::optional<Made> {
    std::optional<Image> image = stored(kernel, target, launch_revision, hash);
    if (!image) return std::nullopt;
    std::string log = image->log;
    return Made{std::move(image), std::move(log)};
  };
  if (std::optional<Made> found = find()) return std::move(*found);
  if (!compiler_)
    throw Error(ErrorKind::compiler, "no image of " + to_string(kernel) + " for " +
                                         to_string(target) +
                                         " is stored, and there is no compiler to make it");
  const auto late = [&] { return Patience::Clock::now() > patience.latest; };
  Made too_late;
  too_late.log = "not begun: it would have ended too late";
  too_late.late = true;
  if (late()) return too_late;
  if (!cache_) return compile(kernel, target, launch_revision, hash);

  // One process compiles; the others wait for its image.
  const auto began = Patience::Clock::now();
  const auto waited = [&] {
    return std::chrono::duration<double>(Patience::Clock::now() - began).count();
  };
  Claim claim(*cache_, kernel, target);
  bool mine = claim.take();
  while (!mine && waited() < patience.seconds) {
    if (patience.stopped && patience.stopped()) {
      Made none;
      none.log = "another process was compiling it when the search ended";
      none.stopped = true;
      return none;
    }
    std::this_thread::sleep_for(kClaimPoll);
    if (std::optional<Made> found = find()) return std::move(*found);
    mine = claim.take();
  }
  if (std::optional<Made> found = find()) return std::move(*found);  // stored before the claim
  if (late()) return too_late;
  Made made = compile(kernel, target, launch_revision, hash);
  keep(made);
  return made;
}

ImageStore::Made ImageStore::make_anew(const KernelSpec& kernel, const Target& target,
                                       const std::string& launch_revision) const {
  Made made = compile(kernel, target, launch_revision, source_hash(kernel, compiler_->identity()));
  keep(made);
  return made;
}

/// Puts an image into the cache. A cache that cannot be written (a full disk) is noted in the log;
/// this call succeeds and the next one compiles again.
void ImageStore::keep(Made& made) const {
  if (!cache_ || !made.image) return;
  if (const std::string why = cache_->put(*made.image); !why.empty())
    append(made.log, "not kept: " + why, "\n");
}

ImageStore::Made ImageStore::compile(const KernelSpec& kernel, const Target& target,
                                     const std::string& launch_revision,
                                     const std::string& hash) const {
  const KernelSource source = kernel_source(kernel);
  CompileResult result = compiler_->compile({kernel, source.text, source.headers, target});
  if (result.image) {
    result.image->kernel = kernel;
    result.image->target = target;
    result.image->source_hash = hash;
    result.image->launch_revision = launch_revision;
  }
  Made made;
  made.image = std::move(result.image);
  made.log = std::move(result.log);
  made.compiled = true;
  return made;
}

}  // namespace tilewise
