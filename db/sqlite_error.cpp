#include "db/sqlite_error.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>

namespace tilewise {
namespace {

struct Sentence {
  int code;
  const char* text;
};

constexpr std::array kSentences{
    Sentence{
        SQLITE_FULL,
        "the disk is full; free some space, or name another file with --db. What was committed "
        "before is intact"},
    Sentence{SQLITE_IOERR,
             "reading or writing failed (a full disk, a quota, a limit on file sizes, or a failing "
             "disk); free some space, or name another file with --db. What was committed before is "
             "intact"},
    Sentence{
        SQLITE_READONLY,
        "it can only be read; make the file and its folder writable, or name another file with "
        "--db"},
    Sentence{
        SQLITE_CORRUPT,
        "the file is damaged; restore a copy, save what can be read with sqlite3's .recover, or "
        "move it away and tune again"},
    Sentence{SQLITE_NOTADB,
             "the file is no SQLite database; name another file with --db or TILEWISE_DB"},
    Sentence{
        SQLITE_BUSY,
        "another process holds its lock for too long; wait for that process or end it, then run "
        "again"},
    Sentence{SQLITE_CANTOPEN,
             "the file cannot be opened; check that it and its folder may be read and written, or "
             "name another file with --db"},
};

}  // namespace

Error database_error(const std::filesystem::path& path, const std::string& why) {
  return {ErrorKind::database, "database " + path.string() + ": " + why};
}

Error sqlite_error(const std::filesystem::path& path, int code, const std::string& words) {
  const auto found =
      std::find_if(kSentences.begin(), kSentences.end(),
                   [code](const Sentence& row) { return row.code == (code & 0xff); });
  const std::string meaning = found != kSentences.end() ? found->text : "SQLite failed";
  return database_error(path, meaning + " (SQLite: " + words + ")");
}

}  // namespace tilewise
