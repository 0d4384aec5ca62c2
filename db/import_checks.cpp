#include "db/import_checks.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/fields.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kLongestName = 256;

[[noreturn]] void refuse(const std::string& name, const std::string& allowed,
                         const std::string& value) {
  throw Error(ErrorKind::invalid_argument, name + " must be " + allowed + ", not " + value);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text.substr(0, 80))
      .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string number_text(double value) { return in_digits(value, 6); }

/// NaN means not measured.
void check_number(const std::string& name, double value, const Field& about) {
  if (std::isnan(value) && !about.above_least) return;
  if (about.above_least ? value > about.least && value <= about.most
                        : value >= about.least && value <= about.most)
    return;
  const std::string least = number_text(about.least);
  std::string allowed = least + " or more";
  if (about.above_least)
    allowed = "above " + least + ", at most " + number_text(about.most);
  else if (about.most < kNoLimit)
    allowed = least + " .. " + number_text(about.most);
  refuse(name, allowed, number_text(value));
}

/// Whether the text has C0, DEL, or C1 in UTF-8.
bool has_control_character(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) return true;
  }
  return false;
}

void check_name(const std::string& name, const std::string& text) {
  if (text.size() > kLongestName || has_control_character(text))
    refuse(name, "at most 256 bytes without control characters", quoted(text));
}

void check_required_name(const std::string& name, const std::string& text) {
  if (text.empty()) refuse(name, "a name", "empty");
  check_name(name, text);
}

/// A name of a template, parameter or source, used in file names and macro names.
void check_identifier(const std::string& name, const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-' || c == '.');
  });
  if (text.empty() || text.front() == '.' || text.size() > kLongestName || !plain)
    refuse(name, "letters, digits, '_', '-' and '.', not first", quoted(text));
}

void check_text(const std::string& name, const std::string& text, Field::Text kind) {
  switch (kind) {
    case Field::Text::name:
      return check_name(name, text);
    case Field::Text::required_name:
      return check_required_name(name, text);
    case Field::Text::identifier:
      return check_identifier(name, text);
    case Field::Text::date:
      return check_imported_date(name, text);
    case Field::Text::message:
      return;
  }
}

/// Checks each field against its allowed values.
class CheckFields {
 public:
  explicit CheckFields(std::string path = "") : path_(std::move(path)) {}
  template <class T>
  void operator()(const char* key, const T& value, const Field& about = {}) {
    const std::string name = path_ + key;
    if constexpr (std::same_as<T, std::string>) {
      check_text(name, value, about.text);
    } else if constexpr (std::same_as<T, double>) {
      check_number(name, value, about);
    } else if constexpr (std::integral<T>) {
      if (!about.id) check_number(name, static_cast<double>(value), about);
    } else if constexpr (std::same_as<T, std::vector<double>>) {
      for (const double x : value) check_number(name, x, about);
    } else if constexpr (std::same_as<T, Configuration>) {
      for (const auto& [parameter, number] : value.values())
        check_identifier("the name of a parameter", parameter);
    } else if constexpr (std::same_as<T, std::optional<Measurement>>) {
      if (value) (*this)(key, *value);
    } else if constexpr (!Enumeration<T>) {
      CheckFields inner(name + ".");
      fields(inner, value);
    }
  }

 private:
  std::string path_;
};

template <class T>
void check_fields(const T& value) {
  CheckFields check;
  fields(check, value);
}

}  // namespace

void check_imported_date(const std::string& name, const std::string& date) {
  constexpr std::string_view form = "dddd-dd-ddTdd:dd:ddZ";
  bool fits = date.size() == form.size();
  for (std::size_t i = 0; fits && i < form.size(); ++i)
    fits = form[i] == 'd' ? date[i] >= '0' && date[i] <= '9' : date[i] == form[i];
  // An export of a record without a date has an empty one.
  if (!fits && !date.empty())
    refuse(name, "a date in UTC as in 2025-06-01T12:34:56Z", quoted(date));
}

void check_imported(const Record& record) { check_fields(record); }
void check_imported(const Baseline& baseline) { check_fields(baseline); }
void check_imported(const DeviceFacts& facts) { check_fields(facts); }
void check_imported(const KeptOrder& order) {
  check_fields(order);
  (void)parse_sum_order(order.sum_order);
  if (order.problem != order_key(order.problem))
    refuse("problem", "a product of one row", to_string(order.problem));
}

void check_imported(const Image& image) {
  check_required_name("the source of a kernel", image.kernel.source);
  check_identifier("the entry of a kernel", image.kernel.entry);
  check_name("source_hash", image.source_hash);
  check_name("launch_revision", image.launch_revision);
  check_fields(image.usage);
  check_number("compile_ms", image.compile_ms, {.most = 1e9});
}

}  // namespace tilewise
