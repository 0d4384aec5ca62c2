#pragma once
#include <filesystem>
#include <optional>

namespace tilewise::cli {

inline constexpr const char* kDropInLibrary = "libtilewise_cublas.so";

/// A folder of this user's alone; removed with the object.
class PrivateFolder {
 public:
  /// Throws Error(io) where none can be made in `parent`.
  explicit PrivateFolder(const std::filesystem::path& parent);
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The library for LD_PRELOAD: TILEWISE_DROP_IN_LIBRARY, else beside this program, else where the
/// installation has libraries. LD_PRELOAD is a list that blanks and colons separate, and a $ begins
/// a word of the loader's; a path that has one gets a link, which lives as long as the object.
class DropInLibrary {
 public:
  /// Throws Error(no_device) where there is no such file, where it is no library that answers
  /// cuBLAS's functions here, or where no link can be made.
  DropInLibrary();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<PrivateFolder> folder_;
};

}  // namespace tilewise::cli
