#pragma once
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_set>

#include "tilewise/problem.hpp"

namespace tilewise {

/// A list file of problems that nothing stored was tuned for, in the form that `autotune
/// --problems` reads. Any number of processes may append to one file: each writes whole lines under
/// a lock of the file. Each object writes a problem once. Bounded: the file is not appended to
/// beyond kMostBytes, and an object writes at most kMostProblems. Thread-safe.
class MissedProblems {
 public:
  static constexpr std::size_t kMostProblems = 10'000;
  static constexpr std::size_t kMostBytes = 1 << 20;

  explicit MissedProblems(std::filesystem::path file) : file_(std::move(file)) {}
  /// Appends the problem; the file is made with its heading where there is none. Returns "", or the
  /// reason why this and all later ones are not written.
  std::string add(const Problem& problem);
  const std::filesystem::path& path() const { return file_; }

 private:
  std::string append(const std::string& line) const;

  const std::filesystem::path file_;
  std::mutex mutex_;  // guards what follows
  std::unordered_set<Problem> written_;
  bool ended_ = false;
};

/// The heading of such a file, and a problem's line without its line end.
std::string missed_heading();
std::string missed_line(const Problem& problem);

}  // namespace tilewise
