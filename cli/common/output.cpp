#include "cli/common/output.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/common/progress.hpp"
#include "tilewise/error.hpp"
#include "tilewise/version.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/open_file.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

// The version of all JSON documents. Raise it when a key is removed or changes its meaning.
constexpr int kDocumentVersion = 1;

constexpr std::size_t kGap = 2;           // blanks between columns
constexpr std::size_t kFlexibleMin = 12;  // a flexible column is never cut below this

std::string padded(const std::string& text, std::size_t width, bool right) {
  if (text.size() > width)
    return width <= 2 ? text.substr(0, width) : text.substr(0, width - 2) + "..";
  const std::string blanks(width - text.size(), ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

int terminal_width(StandardStream stream) {
  if (const auto width = number_in<int>(environment_variable("COLUMNS")); width && *width > 0)
    return *width;
  winsize size{};
  const int fd = stream == StandardStream::out ? STDOUT_FILENO : STDERR_FILENO;
  if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0) return size.ws_col;
  return 0;
}

bool escapes(StandardStream stream) {
  const int fd = stream == StandardStream::out ? STDOUT_FILENO : STDERR_FILENO;
  const std::string terminal = environment_variable("TERM");
  return isatty(fd) && !terminal.empty() && terminal != "dumb";
}

bool colours(StandardStream stream) {
  return escapes(stream) && environment_variable("NO_COLOR").empty();
}

std::string printable(const std::string& text, Lines lines) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool kept = lines == Lines::many && (byte == '\n' || byte == '\t');
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // in UTF-8
    if (kept || !(byte < 0x20 || byte == 0x7f || c1)) {
      shown += text[i];
      continue;
    }
    const unsigned char control = c1 ? next : byte;
    shown += {'\\', 'x', kHex[control >> 4], kHex[control & 15]};
    if (c1) ++i;
  }
  return shown;
}

std::string wrapped(const std::string& text, int width) {
  if (width <= 0) return text;
  const auto most = static_cast<std::size_t>(width);
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!result.empty()) result += '\n';
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::string indent(begin + 2, ' ');
    while (line.size() > most) {
      const std::size_t blank = line.rfind(' ', most);
      if (blank == line.npos || line.find_first_not_of(' ') >= blank) break;  // one long word
      result += line.substr(0, blank) + '\n';
      line = indent + line.substr(line.find_first_not_of(' ', blank));
    }
    result += line;
  }
  return result;
}

std::string styled(const std::string& text, Style style, bool enabled) {
  if (!enabled || style == Style::plain) return text;
  const char* code = style == Style::bold   ? "1"
                     : style == Style::good ? "32"
                     : style == Style::bad  ? "31"
                                            : "2";
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

void Table::add(std::vector<std::string> cells) { add(std::move(cells), {}); }

void Table::add(std::vector<std::string> cells, std::vector<Style> styles) {
  for (std::string& cell : cells) cell = printable(cell, Lines::one);
  rows_.push_back(std::move(cells));
  styles_.push_back(std::move(styles));
}

bool Table::has_values(std::size_t column) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
    return column < row.size() && row[column] != "-" && !row[column].empty();
  });
}

Table::Fit Table::fit(std::size_t width) const {
  Fit fit;
  for (const Column& column : columns_) fit.widths.push_back(column.title.size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      fit.widths[i] = std::max(fit.widths[i], row[i].size());
  fit.shown.resize(columns_.size());
  std::iota(fit.shown.begin(), fit.shown.end(), std::size_t{0});
  if (width == 0) return fit;

  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t i : fit.shown) sum += fit.widths[i] + kGap;
    return sum - std::min(sum, kGap);
  };
  const auto cut_flexible = [&](std::size_t least) {
    for (const std::size_t i : fit.shown) {
      if (!columns_[i].flexible || total() <= width) continue;
      const std::size_t excess = total() - width;
      const std::size_t floor = std::min(fit.widths[i], least);
      fit.widths[i] = std::max(floor, fit.widths[i] - std::min(excess, fit.widths[i]));
    }
  };
  if (total() > width)
    std::erase_if(fit.shown,
                  [&](std::size_t i) { return columns_[i].optional > 0 && !has_values(i); });
  cut_flexible(kFlexibleMin);
  while (total() > width && fit.shown.size() > 1) {
    const auto last = std::max_element(
        fit.shown.begin(), fit.shown.end(),
        [&](std::size_t x, std::size_t y) { return columns_[x].optional < columns_[y].optional; });
    if (columns_[*last].optional == 0) break;
    fit.shown.erase(last);
  }
  for (std::size_t i = fit.shown.size(); i-- > 0 && total() > width && fit.shown.size() > 1;)
    if (columns_[fit.shown[i]].flexible)
      fit.shown.erase(fit.shown.begin() + static_cast<std::ptrdiff_t>(i));
  cut_flexible(4);
  return fit;
}

std::string Table::text(int width, bool colour) const {
  const Fit fitted = fit(width > 0 ? static_cast<std::size_t>(width) : 0);
  const auto line = [&](const auto& cell, const auto& style) {
    std::string text;
    std::size_t blanks = 0;  // not yet written: a line does not end with blanks
    for (const std::size_t i : fitted.shown) {
      const std::string shown = padded(cell(i), fitted.widths[i], columns_[i].right);
      const std::size_t end = shown.find_last_not_of(' ') + 1;
      if (end > 0)
        text += std::string(blanks, ' ') + styled(shown.substr(0, end), style(i), colour);
      blanks = (end > 0 ? 0 : blanks) + shown.size() - end + kGap;
    }
    return text;
  };
  std::string result = styled(line([&](std::size_t i) { return columns_[i].title; },
                                   [](std::size_t) { return Style::plain; }),
                              Style::bold, colour) +
                       "\n";
  for (std::size_t r = 0; r < rows_.size(); ++r)
    result +=
        line([&](std::size_t i) { return i < rows_[r].size() ? rows_[r][i] : ""; },
             [&](std::size_t i) { return i < styles_[r].size() ? styles_[r][i] : Style::plain; }) +
        "\n";
  return result;
}

void Table::print(const Output& output) const {
  const int width = terminal_width();
  std::cout << text(width, colours(StandardStream::out));
  const Fit fitted = fit(width > 0 ? static_cast<std::size_t>(width) : 0);
  std::string hidden;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (has_values(i) &&
        std::find(fitted.shown.begin(), fitted.shown.end(), i) == fitted.shown.end())
      append(hidden, columns_[i].title);
  if (!hidden.empty()) note(output, "(too narrow for: " + hidden + "; --json has everything)");
}

void print_document(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::cout << "{\n  \"version\": " << kDocumentVersion << ",\n  \"program_version\": \""
            << version_text() << "\"," << text.substr(1) << '\n';
}

void print_exact_line(const std::string& text) { std::cout << text << '\n'; }

void print_wrapped(const std::string& text) {
  print_exact_line(wrapped(printable(text), terminal_width()));
}

void print_line(const std::string& text) { print_exact_line(printable(text)); }

void note(const Output& output, const std::string& text) {
  if (output.quiet) return;
  Progress::clear_all();
  std::cerr << wrapped(printable(text), terminal_width(StandardStream::err)) << '\n';
}

void print_complaint(const std::string& word, const std::string& text) {
  const std::string start = "autotune: ";
  const std::string all =
      wrapped(start + word + ' ' + printable(text), terminal_width(StandardStream::err));
  Progress::clear_all();
  std::cerr << start << styled(word, Style::bad, colours(StandardStream::err))
            << all.substr(start.size() + word.size()) << '\n';
}

void warn(const std::string& text) { print_complaint("warning:", text); }

Error cannot_write(const std::string& path) {
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  return {ErrorKind::io, "cannot write '" + path + "'" + why};
}

void check_writable(const std::string& option, const std::string& path) {
  std::error_code ignored;
  const bool present = std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  const OpenFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!file.is_open() && errno != ENXIO)  // ENXIO: a FIFO without a reader yet
    throw Error(ErrorKind::io, option + ": " + cannot_write(path).what());
  if (!present) unlink(path.c_str());
}

std::string format_number(double value, int decimals) { return in_decimals(value, decimals); }

std::string format_microseconds(double us) {
  if (us < 1e3) return format_number(us, us < 10 ? 2 : 1) + " us";
  if (us < 1e6) return format_number(us / 1e3, us < 1e4 ? 3 : 2) + " ms";
  return format_number(us / 1e6, 2) + " s";
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B",   "KiB", "MiB", "GiB", "TiB",
                                           "PiB", "EiB", "ZiB", "YiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return format_number(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string format_seconds(double seconds) {
  constexpr long long kMinute = 60, kHour = 3600, kDay = 86400, kMostDays = 9999;
  if (!(seconds < static_cast<double>(kMostDays * kDay)))
    return "more than " + std::to_string(kMostDays) + " d";
  const auto whole = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  const auto two_digits = [](long long value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  if (whole < 100) return std::to_string(whole) + " s";
  if (whole < 100 * kMinute)
    return std::to_string(whole / kMinute) + " min " + two_digits(whole % kMinute) + " s";
  if (whole < 100 * kHour)
    return std::to_string(whole / kHour) + " h " + two_digits(whole % kHour / kMinute) + " min";
  return std::to_string(whole / kDay) + " d";
}

std::string format_percent(double fraction) { return format_number(100 * fraction, 1) + "%"; }

std::string format_error(double value) { return in_exponent_form(value, 2); }

Style ratio_style(double ratio) { return ratio >= 1 ? Style::good : Style::bad; }

std::string format_rate(double tflops, bool integers) {
  const RateUnit unit(tflops, integers);
  return unit.number(tflops) + " " + unit.name();
}

}  // namespace tilewise::cli
