#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// A row of a CSV file.
struct CsvRow {
  int line = 0;  ///< where it begins, from 1
  std::vector<std::string> fields;
};

enum class CsvComments { none, hash };  ///< hash: a line that begins with # is left out

/// The rows of a CSV file (RFC 4180). Line ends are LF or CRLF; a quoted field may have commas,
/// line ends and doubled quotes. A byte order mark and blank lines are left out, and so are blanks
/// around a field but for those inside quotes. Throws Error(invalid_argument) with the line for a
/// quote that is not closed, for text beside a quoted field, and for a quote inside a field without
/// quotes. Thread-safe.
std::vector<CsvRow> csv_rows(std::string_view text, CsvComments comments = CsvComments::none);

}  // namespace tilewise
