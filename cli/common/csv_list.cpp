#include "cli/common/csv_list.hpp"

#include <algorithm>

#include "cli/common/inputs.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/csv.hpp"

namespace tilewise::cli {

void refuse_list(const std::string& message) { throw Error(ErrorKind::invalid_argument, message); }

void check_column(const std::string& name, const std::string& columns) {
  const std::vector<std::string> known = split_list(columns);
  if (std::find(known.begin(), known.end(), name) == known.end())
    refuse_list("'" + name + "' is not a column; the columns are " + columns);
}

std::vector<ListRow> rows_of_list(const std::string& text, const std::string& columns) {
  std::vector<ListRow> rows;
  std::vector<std::string> heading;
  for (const CsvRow& csv : csv_rows(text, CsvComments::hash)) {
    const std::string place = "line " + std::to_string(csv.line);
    if (heading.empty()) {
      heading = csv.fields;
      try {
        for (const std::string& column : heading) {
          check_column(column, columns);
          if (std::count(heading.begin(), heading.end(), column) > 1)
            refuse_list("'" + column + "' is there twice");
        }
      } catch (const Error& error) {
        refuse_list(place + ", the heading: " + error.what());
      }
      continue;
    }
    if (csv.fields.size() != heading.size())
      refuse_list(place + ": it has " + std::to_string(csv.fields.size()) +
                  " fields, the heading has " + std::to_string(heading.size()));
    ListRow row{place, {}};
    for (std::size_t i = 0; i < heading.size(); ++i)
      if (!csv.fields[i].empty()) row.values[heading[i]] = csv.fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tilewise::cli
