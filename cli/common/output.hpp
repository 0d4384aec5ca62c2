#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tilewise/error.hpp"

/// Output: results on stdout (a table, or one JSON document), everything else on stderr.
namespace tilewise::cli {

using Json = nlohmann::ordered_json;

struct Output {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

enum class StandardStream { out, err };
/// Columns of the terminal: COLUMNS, otherwise the stream's width, otherwise 0 (no limit: a pipe or
/// a file).
int terminal_width(StandardStream stream = StandardStream::out);

/// Whether that stream is a terminal with escape sequences: TERM is set, and is not dumb.
bool escapes(StandardStream stream);
/// escapes(), and NO_COLOR is not set.
bool colours(StandardStream stream);

/// Text safe for a terminal: control characters, such as those of an escape sequence, become \x1b.
/// Lines::many keeps line ends.
enum class Lines { one, many };
std::string printable(const std::string& text, Lines lines = Lines::many);

/// The text in lines of at most `width` columns (0 = no limit), broken between words. A
/// continuation line is indented by two more columns.
std::string wrapped(const std::string& text, int width);

enum class Style { plain, bold, good, bad, dim };
std::string styled(const std::string& text, Style style, bool enabled);

/// A column of a table. In a narrow terminal, `optional` columns without a value ("-") are left out
/// first. Then `flexible` columns are truncated. Then columns are left out, those with the highest
/// `optional` first (0 = never) and flexible ones last.
struct Column {
  std::string title;
  bool right = false;
  bool flexible = false;
  int optional = 0;
};

/// A table as text. Cells are plain text, made printable(); a cell's width is its length.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  /// The same with a style for each cell; cells after the last style are plain.
  void add(std::vector<std::string> cells, std::vector<Style> styles);
  bool empty() const { return rows_.empty(); }
  /// `width` 0 = no limit.
  std::string text(int width, bool colour) const;
  /// Prints to stdout at the terminal's width; names omitted columns on stderr.
  void print(const Output& output) const;

 private:
  struct Fit {
    std::vector<std::size_t> shown;   ///< indices of columns
    std::vector<std::size_t> widths;  ///< of every column
  };
  Fit fit(std::size_t width) const;
  bool has_values(std::size_t column) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::vector<Style>> styles_;  ///< of rows_
};

/// Prints one JSON object on stdout, with "version" (of the document format) and "program_version"
/// first; invalid UTF-8 is replaced, and a number that is none is null.
void print_document(const Json& json);
/// A line on stdout, made printable() and wrapped() for the terminal.
void print_wrapped(const std::string& text);
/// A line on stdout, made printable().
void print_line(const std::string& text);
/// A line on stdout, unchanged: for programs or styled text.
void print_exact_line(const std::string& text);
/// A line on stderr, made printable() and wrapped() for the terminal, unless --quiet.
void note(const Output& output, const std::string& text);
/// "autotune: WORD TEXT", the word in red, even with --quiet.
void print_complaint(const std::string& word, const std::string& text);
/// The same with "warning:".
void warn(const std::string& text);

/// The error for a file that could not be written, with the reason in errno, if any.
Error cannot_write(const std::string& path);

/// Throws Error(io) with `option` and the reason when the file is not writable; does not
/// change it. A check before a long run.
void check_writable(const std::string& option, const std::string& path);

// Numbers in tables. JSON has them unrounded.
std::string format_number(double value, int decimals);
std::string format_microseconds(double microseconds);  ///< "12.3 us", "4.56 ms", "1.20 s"
std::string format_bytes(double bytes);                ///< "12.0 KiB", "141.0 GiB"
std::string format_seconds(double seconds);   ///< "45 s", "2 min 05 s", "3 h 20 min", "12 d"
std::string format_percent(double fraction);  ///< "0.3%"
std::string format_error(double value);       ///< "1.27e-07"
/// Style of a ratio (time of another library over ours): good where ours is shorter, bad where
/// longer.
Style ratio_style(double ratio);
/// "12.34 TFLOP/s", "56.78 GFLOP/s"; "TOP/s" for integers.
std::string format_rate(double tflops, bool integers = false);

/// The unit of a table's rates: TFLOP/s, or GFLOP/s when the largest is below one TFLOP/s; TOP/s
/// where some rates are of integer products.
class RateUnit {
 public:
  explicit RateUnit(double largest_tflops, bool integers = false)
      : giga_(!(largest_tflops >= 1)), integers_(integers) {}
  std::string name() const {
    return std::string(giga_ ? "G" : "T") + (integers_ ? "OP/s" : "FLOP/s");
  }
  double scaled(double tflops) const { return giga_ ? tflops * 1e3 : tflops; }
  std::string number(double tflops) const { return format_number(scaled(tflops), 2); }

 private:
  bool giga_, integers_;
};

}  // namespace tilewise::cli
