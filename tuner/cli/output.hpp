#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Output: results on stdout (a table, or one JSON document), everything else on stderr.
namespace tilewise::cli {

struct Output {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

/// Columns of the terminal: COLUMNS, else stdout's width, else 0 (no limit: a pipe or a file).
int terminal_width();

enum class StandardStream { out, err };
/// Whether that stream is a terminal with escape sequences: TERM is set, and is not dumb.
bool escapes(StandardStream stream);
/// The same, and NO_COLOR is not set.
bool colours(StandardStream stream);

/// Text safe for a terminal: control characters (of an escape sequence, for example) become \x1b.
/// Line ends remain with Lines::many.
enum class Lines { one, many };
std::string printable(const std::string& text, Lines lines = Lines::many);

enum class Style { plain, bold, good, bad, dim };
std::string styled(const std::string& text, Style style, bool enabled);

/// A column of a table. When the terminal is too narrow, `flexible` columns are truncated first,
/// then columns are left out, those with the highest `optional` first (0 = never).
struct Column {
  std::string title;
  bool right = false;
  bool flexible = false;
  int optional = 0;
};

/// Text in columns. Cells are plain text, made printable(); a cell's width is its length.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// `width` 0 = no limit.
  std::string text(int width, bool colour) const;
  /// Prints to stdout in the terminal's width; names columns that were left out on stderr.
  void print(const Output& output) const;

 private:
  struct Fit {
    std::vector<std::size_t> shown;   ///< indices of columns
    std::vector<std::size_t> widths;  ///< of every column
  };
  Fit fit(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Prints one JSON object (text) on stdout, with "version" (of the document format) and
/// "program_version" first.
void print_document(const std::string& json);
/// A line on stdout, made printable().
void print_line(const std::string& text);
/// A line on stdout, unchanged: for programs, or with styles.
void print_exact_line(const std::string& text);
/// A line on stderr, made printable(), unless --quiet.
void note(const Output& output, const std::string& text);
/// "autotune: warning: ..." on stderr, made printable(), even with --quiet.
void warn(const std::string& text);

/// Throws Error(io) with `option` and the reason when the file could not be written; does not
/// change the file. A check before a long run.
void check_writable(const std::string& option, const std::string& path);

// Numbers in tables (JSON has them unrounded).
std::string format_number(double value, int decimals);
std::string format_microseconds(double microseconds);  ///< "12.3 us", "4.56 ms", "1.20 s"
std::string format_bytes(double bytes);                ///< "12.0 KiB", "141.0 GiB"
std::string format_seconds(double seconds);   ///< "45 s", "2 min 05 s", "3 h 20 min", "12 d"
std::string format_percent(double fraction);  ///< "0.3%"
/// "12.34 TFLOP/s", "56.78 GFLOP/s"; "TOP/s" for integers.
std::string format_rate(double tflops, bool integers = false);

/// The unit of a table's rates: TFLOP/s, or GFLOP/s when the largest is below one TFLOP/s; TOP/s
/// where some of them are of integers.
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
