#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/report/report_data.hpp"

/// The page of `autotune report`: a template with data in JSON, and plotly.js.
namespace tilewise::cli {

/// A file of page/ that is embedded in the program.
struct EmbeddedPage {
  const char* name;  ///< "report.html"
  const char* text;
};
extern const EmbeddedPage kEmbeddedPages[];
extern const int kEmbeddedPageCount;

/// plotly.js, to be embedded into a page.
struct Plotly {
  std::string path, text;
  std::string version;    ///< "3.0.1"; empty when the file does not state it
  std::string copyright;  ///< "Copyright 2012-2025, Plotly, Inc."
};
/// Finds plotly.js at `named` (the file or its folder), otherwise at TILEWISE_PLOTLY, otherwise in
/// the package plotly of VIRTUAL_ENV's or the system's Python. Throws Error(unsupported) with the
/// ways to install it, Error(io) for a named file that is absent or is not plotly.js.
Plotly find_plotly(const std::string& named);

/// Facts about the page and the whole database.
struct ReportSummary {
  std::string database, made;  ///< path; ISO 8601 UTC
  std::int64_t records = 0, problems = 0;
  std::int64_t left_out_problems = 0, left_out_records = 0;  ///< in problems that are not shown
  std::size_t most_candidates = 0;                           ///< of one problem
};

/// Deduplicated strings, referenced by index.
class ReportStrings {
 public:
  std::size_t number(const std::string& text);
  std::string json() const;  ///< all strings as an array

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

/// The parameters of each template in the catalog: meaning, names of values, plain value.
std::string catalog_json();
/// A problem as page/ reads it: its overview row, and its details. JSON without '<'.
std::string overview_json(const ReportProblem& problem);
std::string details_json(const ReportProblem& problem, ReportStrings& strings);

/// Text as JSON in an HTML script element: invalid UTF-8 is replaced, '<' is \u003c.
std::string script_safe(std::string json);

/// The whole page. `overviews` and `details` are JSON of the same problems.
std::string report_page(const ReportSummary& summary, const std::vector<ReportGpu>& gpus,
                        const std::vector<std::string>& overviews,
                        const std::vector<std::string>& details, const ReportStrings& strings,
                        const Plotly& plotly);

}  // namespace tilewise::cli
