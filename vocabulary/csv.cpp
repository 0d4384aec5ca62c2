#include "vocabulary/csv.hpp"

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Reads a text field by field.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) place_ = kByteOrderMark.size();
  }
  bool at_end() const { return place_ >= text_.size(); }
  char next() const { return text_[place_]; }

  CsvRow row() {
    CsvRow row{line_, {}};
    do row.fields.push_back(field());
    while (took(','));
    if (!take_line_end() && !at_end()) refuse("there is text behind a quoted field");
    return row;
  }
  void skip_line() {
    while (!at_end() && next() != '\n') ++place_;
    take_line_end();
  }

 private:
  bool took(char c) {
    if (at_end() || next() != c) return false;
    ++place_;
    return true;
  }
  bool at_line_end() const {
    return at_end() || next() == '\n' || text_.substr(place_, 2) == "\r\n" ||
           text_.substr(place_) == "\r";
  }
  bool take_line_end() {
    if (at_end()) return false;
    took('\r');
    if (!took('\n')) return at_end();
    ++line_;
    return true;
  }
  void skip_blanks() {
    while (!at_end() && is_blank(next())) ++place_;
  }

  std::string field() {
    skip_blanks();
    std::string text = took('"') ? quoted() : unquoted();
    skip_blanks();
    return text;
  }
  /// Begins after the first quote and ends after the last one.
  std::string quoted() {
    const int begin = line_;
    std::string text;
    for (; !at_end(); ++place_) {
      if (next() == '"') {
        ++place_;
        if (at_end() || next() != '"') return text;
      }
      if (next() == '\n') ++line_;
      text += next();
    }
    line_ = begin;
    refuse("a quote is not closed");
  }
  std::string unquoted() {
    std::string text;
    for (; !at_line_end() && next() != ','; ++place_) {
      if (next() == '"') refuse("there is a quote inside a field that does not begin with one");
      text += next();
    }
    text.erase(text.find_last_not_of(" \t") + 1);
    return text;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::invalid_argument, "line " + std::to_string(line_) + ": " + why);
  }

  std::string_view text_;
  std::size_t place_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<CsvRow> csv_rows(std::string_view text, CsvComments comments) {
  std::vector<CsvRow> rows;
  for (CsvReader reader(text); !reader.at_end();) {
    if (comments == CsvComments::hash && reader.next() == '#') {
      reader.skip_line();
      continue;
    }
    CsvRow row = reader.row();
    if (row.fields.size() > 1 || !row.fields.front().empty()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tilewise
