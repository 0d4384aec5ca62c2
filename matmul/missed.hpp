#pragma once
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_set>

#include "tilewise/problem.hpp"

namespace tilewise {

/// A file that lists problems without a tuned kernel, in the format of `autotune --problems`. Any
/// number of processes may append to one file: each writes whole lines under a lock of the file. An
/// object writes each problem once and at most kMostProblems problems. The file does not grow
/// beyond kMostBytes. Thread-safe.
class MissedProblems {
 public:
  static constexpr std::size_t kMostProblems = 10'000;
  static constexpr std::size_t kMostBytes = 1 << 20;

  explicit MissedProblems(std::filesystem::path file) : file_(std::move(file)) {}
  /// Appends the problem; creates the file with its heading if there is none. Returns "", or the
  /// reason why this and all later problems are not written.
  std::string add(const Problem& problem);
  const std::filesystem::path& path() const { return file_; }

 private:
  std::string append(std::string line) const;

  const std::filesystem::path file_;
  std::mutex mutex_;  // guards the next two
  std::unordered_set<Problem> written_;
  bool ended_ = false;
};

/// The heading of such a file, and the line of a problem without its line end.
std::string missed_heading();
std::string missed_line(const Problem& problem);

}  // namespace tilewise
