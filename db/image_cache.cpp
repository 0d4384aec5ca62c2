#include "db/image_cache.hpp"

#include "db/cache_file.hpp"
#include "db/sqlite_error.hpp"

namespace tilewise {

ImageCache::ImageCache(const std::filesystem::path& path, OpenMode mode, Trust trust,
                       std::int64_t most_bytes)
    : path_(absolute_path(path)), mode_(mode), trust_(trust), most_bytes_(most_bytes) {
  open();
}

ImageCache::ImageCache() : database_(Database::in_memory()) {}

void ImageCache::open() {
  std::error_code ignored;
  if (mode_ == OpenMode::read_only && !std::filesystem::exists(path_, ignored)) return;
  try {
    database_.emplace(Database::open(path_, mode_, trust_));
  } catch (const SqliteError& error) {
    if (make_anew(error)) open();
  } catch (const Error& error) {
    give_up(error.what());
  }
}

void ImageCache::give_up(const std::string& why) {
  database_.reset();
  warnings_.push_back("the image cache is not used: " + why);
}

/// Removes a damaged file. False when the cache cannot continue.
bool ImageCache::make_anew(const SqliteError& error) {
  database_.reset();
  if (!error.damaged() || path_.empty() || mode_ != OpenMode::read_write || replaced_) {
    give_up(error.what());
    return false;
  }
  replaced_ = true;
  const RemovedFile file = remove_cache_file(path_, trust_);
  // A missing file is no failure: another process may have removed it.
  if (!file.kept.empty()) {
    give_up(std::string(error.what()) + "; it is not made anew, since " + file.kept +
            ": move it away");
    return false;
  }
  warnings_.push_back("the image cache was damaged and is made anew: " + std::string(error.what()));
  return true;
}

/// Runs `body` on the database, if any. If the file is damaged or was deleted, runs it once more on
/// a new file.
template <class Use>
void ImageCache::use(Use body) {
  const std::lock_guard lock(mutex_);
  if (!database_) return;
  try {
    return body(*database_);
  } catch (const SqliteError& error) {
    if (error.busy() || error.full()) throw;
    if (!make_anew(error)) return;
  } catch (const Error&) {  // the file was deleted or replaced
    database_.reset();
    if (path_.empty() || replaced_) return;
    replaced_ = true;
  }
  open();
  if (database_) body(*database_);
}

std::optional<Image> ImageCache::image(const KernelSpec& kernel, const Target& target,
                                       const std::string& launch_revision) {
  std::optional<Image> found;
  try {
    use([&](Database& database) { found = database.image(kernel, target, launch_revision); });
  } catch (const Error&) {  // locked by another process: no image
  }
  return found;
}

std::string ImageCache::put(const Image& image) {
  if (mode_ == OpenMode::read_only) return "the image cache can only be read";
  bool kept = false;
  try {
    use([&](Database& database) {
      database.put_image(image);
      kept = true;
      if (database.bytes_in_use() > most_bytes_) database.drop_oldest_images(most_bytes_ * 3 / 4);
    });
    return kept ? "" : "the image cache is not used";
  } catch (const Error& error) {
    return error.what();
  }
}

ImageCache::Claim ImageCache::claim(const KernelSpec& kernel, const Target& target) {
  Claim claim = Claim::none;
  if (mode_ == OpenMode::read_only) return claim;
  try {
    use([&](Database& database) {
      claim = database.claim_image(kernel, target) ? Claim::held : Claim::of_another;
    });
  } catch (const Error&) {  // full or locked: no claims
  }
  return claim;
}

void ImageCache::renew_claim(const KernelSpec& kernel, const Target& target) {
  try {
    use([&](Database& database) { database.renew_claim(kernel, target); });
  } catch (const Error&) {  // the claim becomes stale
  }
}

void ImageCache::release_claim(const KernelSpec& kernel, const Target& target) {
  try {
    use([&](Database& database) { database.release_claim(kernel, target); });
  } catch (const Error&) {  // the claim is free when this process ends
  }
}

/// Whether the path still names the open file.
bool ImageCache::still_there() const { return database_ && database_->still_there(); }

bool ImageCache::discard() {
  const std::lock_guard lock(mutex_);
  if (path_.empty() || mode_ == OpenMode::read_only) return false;
  // On a full disk the application id of a new file may stay in its log.
  const CacheContents contents = still_there() ? CacheContents::ours : CacheContents::unknown;
  database_.reset();
  return remove_cache_file(path_, trust_, contents).removed;
}

std::optional<DatabaseCounts> ImageCache::counts() {
  std::optional<DatabaseCounts> counts;
  try {
    use([&](Database& database) { counts = database.counts(); });
  } catch (const Error&) {
  }
  return counts;
}

std::vector<std::string> ImageCache::warnings() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all = warnings_;
  if (database_)
    for (std::string& warning : database_->warnings()) all.push_back(std::move(warning));
  return all;
}

}  // namespace tilewise
