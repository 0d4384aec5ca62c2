#include "db/sqlite_error.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>

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
    Sentence{
        SQLITE_ERROR,
        "its tables are not those of Tilewise: the file is damaged, or another program changed it; "
        "restore a copy, or move it away and tune again"},
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

SqliteError sqlite_error(const std::filesystem::path& path, int code, const std::string& words,
                         int system_error) {
  const auto found =
      std::find_if(kSentences.begin(), kSentences.end(),
                   [code](const Sentence& row) { return row.code == (code & 0xff); });
  const std::string meaning = found != kSentences.end() ? found->text : "SQLite failed";
  return {database_error(path, meaning + " (SQLite: " + words + ")").what(), code, system_error};
}

bool SqliteError::full() const {
  return (code_ & 0xff) == SQLITE_FULL ||
         ((code_ & 0xff) == SQLITE_IOERR && (system_error_ == ENOSPC || system_error_ == EDQUOT));
}

bool SqliteError::damaged() const {
  switch (code_ & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR:       // one of our statements does not fit the schema
    case SQLITE_CONSTRAINT:  // an index and its table disagree
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return code_ == SQLITE_IOERR_SHORT_READ || code_ == SQLITE_IOERR_CORRUPTFS ||
             code_ == SQLITE_IOERR_DATA;
  }
}

bool SqliteError::of_an_index() const { return code_ == SQLITE_CORRUPT_INDEX; }

bool SqliteError::busy() const { return (code_ & 0xff) == SQLITE_BUSY; }

}  // namespace tilewise
