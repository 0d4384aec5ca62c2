#pragma once
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"

namespace tilewise {

class SqliteError;

/// Compiled images of records that are neither winners nor finalists, in a file that may be deleted
/// at any time. A fault of the file is a warning (warnings()), never an error. A damaged file that
/// remove_cache_file() deletes is created again; without a usable file nothing is cached.
/// Thread-safe.
class ImageCache {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;

  /// Opens the file at `path`; creates it when absent and writable. Drops the oldest images above
  /// `most_bytes`.
  explicit ImageCache(const std::filesystem::path& path, OpenMode mode = OpenMode::read_write,
                      Trust trust = default_trust(), std::int64_t most_bytes = kMostBytes);
  /// A cache in memory.
  ImageCache();

  std::optional<Image> image(const KernelSpec& kernel, const Target& target,
                             const std::string& launch_revision);
  /// Stores an image. Returns why it is not stored; otherwise empty.
  std::string put(const Image& image);

  /// Claims like Database::claim_image(); `none`: there is no shared file.
  enum class Claim { held, of_another, none };
  Claim claim(const KernelSpec& kernel, const Target& target);
  void renew_claim(const KernelSpec& kernel, const Target& target);
  void release_claim(const KernelSpec& kernel, const Target& target);

  /// Removes the file, to free space on a full disk; afterwards this object stores nothing. True
  /// when remove_cache_file() deleted a file.
  bool discard();
  /// For tests and listings; empty without a usable file.
  std::optional<DatabaseCounts> counts();
  std::vector<std::string> warnings() const;

 private:
  void open();
  void give_up(const std::string& why);
  bool make_anew(const SqliteError& error);
  bool still_there() const;
  template <class Use>
  void use(Use body);

  std::filesystem::path path_;
  OpenMode mode_ = OpenMode::read_write;
  Trust trust_ = Trust::owner;
  std::int64_t most_bytes_ = kMostBytes;
  mutable std::mutex mutex_;  // guards all members below
  std::optional<Database> database_;
  std::vector<std::string> warnings_;
  bool replaced_ = false;  ///< the file was replaced once
};

}  // namespace tilewise
