#pragma once
#include <map>
#include <string>
#include <vector>

/// Lists in CSV files with a heading.
namespace tilewise::cli {

/// The non-empty values of a row, by column.
using Row = std::map<std::string, std::string>;

struct ListRow {
  std::string place;  ///< "line 3"
  Row values;
};

/// Throws Error(invalid_argument).
[[noreturn]] void refuse_list(const std::string& message);

/// Throws Error(invalid_argument) unless `name` is one of `columns`, "m, n, k".
void check_column(const std::string& name, const std::string& columns);

/// The rows of a CSV file whose heading has some of `columns`, each once. Throws
/// Error(invalid_argument) with the line.
std::vector<ListRow> rows_of_list(const std::string& text, const std::string& columns);

}  // namespace tilewise::cli
