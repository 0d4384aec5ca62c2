#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tilewise::host {

/// A folder of its own below TMPDIR, removed at the end. Throws Error(io).
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Leaves the folder to the caller.
  std::string keep();

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

/// Both throw Error(io).
void write_file(const std::filesystem::path& path, const void* data, std::size_t bytes);
std::string read_file(const std::filesystem::path& path);

/// Runs a program (looked for on PATH) in `folder`, its output into `log`. Its exit status, or -1
/// when it could not be started or was killed.
int run_program(const std::vector<std::string>& words, const std::filesystem::path& folder,
                std::string& log);

}  // namespace tilewise::host
