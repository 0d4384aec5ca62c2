#include "db/cache_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "db/companions.hpp"
#include "db/schema.hpp"
#include "db/sqlite.hpp"
#include "db/trust.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/open_file.hpp"

namespace tilewise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic("SQLite format 3", 16);  // with the null byte at its end
constexpr std::size_t kHeaderBytes = 100;
constexpr std::size_t kApplicationIdAt = 68;

/// The first bytes of a file, at most a header; fewer if the file is shorter or unreadable.
std::string header_of(const fs::path& file) {
  std::array<char, kHeaderBytes> bytes{};
  const OpenFile from(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const ssize_t count = pread(from.descriptor(), bytes.data(), bytes.size(), 0);
  return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

std::int64_t application_id_in(std::string_view header) {
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < 4; ++i)
    id = id << 8 | static_cast<unsigned char>(header[kApplicationIdAt + i]);
  return id;
}

/// Whether the application id is ours, read with the log: only the log may have a new file's id.
bool is_ours_with_its_log(const fs::path& file) {
  if (!has_bytes(file, "-wal")) return false;
  try {
    return Connection(file, Connection::Access::read).integer("PRAGMA application_id") ==
           kApplicationId;
  } catch (const Error&) {
    return false;
  }
}

/// Why a trusted file is not an image cache; empty when it is one.
std::string foreign_contents(const fs::path& file, off_t bytes) {
  if (bytes == 0) return has_bytes(file, "-wal") ? "it is no cache of Tilewise" : "";
  const std::string header = header_of(file);
  if (header.compare(0, kMagic.size(), kMagic) != 0) return "it is no SQLite database";
  if (header.size() < kHeaderBytes) return "";  // no room for a row
  const std::int64_t id = application_id_in(header);
  if (id == kApplicationId || (id == 0 && is_ours_with_its_log(file))) return "";
  return "it is a database of another program";
}

std::string why_kept(const fs::path& file, const struct stat& status, Trust trust,
                     CacheContents contents) {
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (trust == Trust::owner) {
    if (const std::string why = distrust(file); !why.empty()) return why;
    drop_empty_companions(file);
    for (const char* suffix : kCompanions)
      if (const std::string why = distrust(companion(file, suffix)); !why.empty())
        return companion(file, suffix).filename().string() + " beside it: " + why;
  }
  return contents == CacheContents::ours ? "" : foreign_contents(file, status.st_size);
}

}  // namespace

RemovedFile remove_cache_file(const fs::path& path, Trust trust, CacheContents contents) {
  RemovedFile result;
  const auto [file, foreign_link] = follow_links(path);
  struct stat status {};
  if (lstat(file.c_str(), &status) != 0) return result;
  if (foreign_link.empty() && S_ISLNK(status.st_mode)) return result;  // a dangling link
  result.kept = foreign_link.empty()
                    ? why_kept(file, status, trust, contents)
                    : "the symbolic link " + foreign_link.string() + " belongs to another user";
  if (!result.kept.empty()) return result;
  if (unlink(file.c_str()) != 0) {
    result.kept = std::string("it cannot be deleted (") + std::strerror(errno) + ")";
    return result;
  }
  result.removed = true;
  result.bytes = status.st_size;
  for (const char* suffix : kCompanions) unlink((file.string() + suffix).c_str());
  return result;
}

}  // namespace tilewise
