#include "db/columns.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

/// Parses an array of numbers in the form of samples_text(); empty for any other text. The JSON
/// library takes ten times as long, which would delay a program that opens a database.
std::vector<double> parse_numbers(std::string_view text) {
  std::vector<double> samples;
  if (text.empty() || text.front() != '[') return {};
  samples.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1);
  const char *at = text.data(), *const end = at + text.size();
  for (;;) {
    ++at;  // past '[' or ','
    if (at == end || *at < '0' || *at > '9') return {};
    const auto [next, error] = std::from_chars(at, end, samples.emplace_back());
    if (error != std::errc() || next == end) return {};
    if (*next == ']' && next + 1 == end) return samples;
    if (*next != ',') return {};
    at = next;
  }
}

}  // namespace

std::string samples_text(const std::vector<double>& samples) {
  return nlohmann::json(samples).dump();  // JSON has no NaN: null
}

std::vector<double> parse_samples(const std::string& text) {
  if (auto numbers = parse_numbers(text); !numbers.empty()) return numbers;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<double> samples;
  if (!json.is_array()) {
    throw Error(ErrorKind::invalid_argument, "samples_us is no JSON array: " + text.substr(0, 80));
  }
  for (const auto& sample : json) {
    if (!sample.is_number() && !sample.is_null()) {
      throw Error(ErrorKind::invalid_argument, "a sample is no number: " + text.substr(0, 80));
    }
    samples.push_back(sample.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                       : sample.get<double>());
  }
  return samples;
}

std::string Columns::definitions() const {
  return join(own_, ", ", [](const Column& x) { return x.name + " " + x.definition; });
}

std::string Columns::names() const { return join(own_, ", ", &Column::name); }

void Columns::select(const std::string& expression) { append(selected_, expression); }

void Columns::add(const std::string& name, const std::string& type, const std::string& fallback,
                  const Field& about) {
  const bool shared = part_ && !about.per_row;
  select((shared ? "e." : alias_ + ".") + name);
  if (about.id || !is_in(part_, about)) return;
  // A floating-point column that is NULL is NaN.
  std::string definition = type + (optional_ || type == "REAL" ? "" : " NOT NULL");
  if (about.since > 0) definition += " DEFAULT " + fallback;
  own_.push_back({name, definition});
}

}  // namespace tilewise
