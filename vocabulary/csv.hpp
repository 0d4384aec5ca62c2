#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// A row of a CSV file.
struct CsvRow {
  int line = 0;  ///< where the row begins, from 1
  std::vector<std::string> fields;
};

enum class CsvComments { none, hash };  ///< hash: skips a line that begins with #

/// The rows of a CSV file (RFC 4180). Line ends are LF or CRLF; a quoted field may have commas,
/// line ends and doubled quotes. Skips a byte order mark, blank lines, and blanks around a field
/// except inside quotes. Throws Error(invalid_argument) with the line for an unclosed quote, for
/// text next to a quoted field, and for a quote inside an unquoted field. Thread-safe.
std::vector<CsvRow> csv_rows(std::string_view text, CsvComments comments = CsvComments::none);

}  // namespace tilewise
