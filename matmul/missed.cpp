#include "matmul/missed.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "vocabulary/open_file.hpp"

namespace tilewise {
namespace {

/// An open, locked file. The destructor closes it, which releases the lock.
class LockedFile : public OpenFile {
 public:
  explicit LockedFile(const std::filesystem::path& path)
      : OpenFile(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    while (is_open() && flock(descriptor(), LOCK_EX) != 0)
      if (errno != EINTR) break;
  }
};

/// The columns of the oldest files. Later versions have added one after the other.
constexpr std::string_view kOldest = "layout,m,n,k,dtype,out,math,batch,align";

/// The first line of an open file; empty if it is longer than a heading.
std::string first_line(int descriptor) {
  std::string line(missed_heading().size() + 1, '\0');
  const ssize_t count = ::pread(descriptor, line.data(), line.size(), 0);
  line.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const std::size_t end = line.find('\n');
  return end == line.npos ? "" : line.substr(0, end);
}

}  // namespace

std::string missed_heading() {
  return std::string(kOldest) + ",epilogue,order,grouped,distribution,dtype_b";
}

std::string missed_line(const Problem& problem) {
  std::string line(to_string(layout_of(problem)));
  for (const std::int64_t value : {problem.m, problem.n, problem.k})
    line += "," + std::to_string(value);
  for (const std::string_view name :
       {to_string(problem.a.type), to_string(problem.c.type), to_string(problem.math)})
    line += "," + std::string(name);
  const Alignment align = alignment_of(problem);
  line += "," + std::to_string(problem.batch) + "," + std::to_string(align.a) + "/" +
          std::to_string(align.b) + "/" + std::to_string(align.c) + ",";
  if (problem.epilogue) line += '"' + epilogue_text(problem) + '"';
  line += "," + order_text(problem) + ",";
  if (is_grouped(problem)) line += to_string(problem.grouping);
  line += ",";
  if (is_grouped(problem)) line += to_string(problem.distribution);
  line += ",";
  if (problem.b.type != problem.a.type) line += to_string(problem.b.type);
  return line;
}

std::string MissedProblems::add(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  if (ended_ || written_.contains(problem)) return "";
  std::string why = written_.size() >= kMostProblems
                        ? "it has " + std::to_string(kMostProblems) + " problems of this process"
                        : append(missed_line(problem));
  if (why.empty())
    written_.insert(problem);
  else
    ended_ = true;
  return why;
}

std::string MissedProblems::append(std::string line) const {
  const LockedFile file(file_);
  struct stat status {};
  if (!file.is_open() || fstat(file.descriptor(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  const std::string heading = missed_heading();
  const std::string known = first_line(file.descriptor());
  // A file of an older version lacks the last columns. They must be empty.
  if (heading.starts_with(known) && known.size() >= kOldest.size())
    for (auto left = std::count(heading.begin() + std::ssize(known), heading.end(), ','); left > 0;
         --left) {
      if (line.back() != ',')
        return "its heading lacks the columns " + heading.substr(known.size() + 1) +
               "; move or delete it";
      line.pop_back();
    }
  const std::string text = (status.st_size == 0 ? heading + "\n" : "") + line + "\n";
  if (static_cast<std::size_t>(status.st_size) + text.size() > kMostBytes)
    return "it has reached " + std::to_string(kMostBytes >> 20) + " MiB";
  const ssize_t count = ::write(file.descriptor(), text.data(), text.size());
  if (count == static_cast<ssize_t>(text.size())) return "";
  const std::string why = count < 0 ? std::strerror(errno) : "the disk is full";
  // Removes the incomplete line.
  if (count > 0 && ftruncate(file.descriptor(), status.st_size) != 0) return why;
  return why;
}

}  // namespace tilewise
