#pragma once
#include <filesystem>
#include <optional>

namespace tilewise::cli {

inline constexpr const char* kDropInLibrary = "libtilewise_cublas.so";

/// A folder accessible to this user only. The destructor removes it.
class PrivateFolder {
 public:
  /// Throws Error(io) when no folder can be made in `parent`.
  explicit PrivateFolder(const std::filesystem::path& parent);
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The library for LD_PRELOAD: TILEWISE_DROP_IN_LIBRARY, otherwise next to this program, otherwise
/// in the installation's library folder. Blanks and colons separate LD_PRELOAD's list, and $ begins
/// a token of the loader. A path with one of these gets a link, which lives as long as the object.
class DropInLibrary {
 public:
  /// Throws Error(no_device) when the file is missing, is not a library with cuBLAS's functions for
  /// this machine, or when no link can be made.
  DropInLibrary();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<PrivateFolder> folder_;
};

}  // namespace tilewise::cli
