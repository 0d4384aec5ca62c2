#include "db/import_checks.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise {
namespace {

constexpr double kMostMicroseconds = 1e12;  // eleven days
constexpr double kMostSpread = 100;
constexpr double kMostMegahertz = 1e6, kMostWatts = 1e6;
constexpr double kMostMillijoules = kMostMicroseconds * kMostWatts;
constexpr double kMostMilliseconds = 1e9;
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
void check_number(const std::string& name, double value, double most) {
  if (std::isnan(value)) return;
  if (!(value >= 0 && value <= most))
    refuse(name, most < kNoLimit ? "0 .. " + number_text(most) : "0 or more", number_text(value));
}

void check_count(const std::string& name, std::int64_t value) {
  if (value < 0) refuse(name, "0 or more", std::to_string(value));
}

/// C0 and DEL, and C1 in UTF-8.
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

/// A name of a template, parameter or source: part of file names and macro names.
void check_identifier(const std::string& name, const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-' || c == '.');
  });
  if (text.empty() || text.front() == '.' || text.size() > kLongestName || !plain)
    refuse(name, "letters, digits, '_', '-' and '.', not first", quoted(text));
}

void check_problem(const Problem& problem) {
  for (const auto& [name, size] :
       {std::pair<const char*, std::int64_t>{"m", problem.m}, {"n", problem.n}, {"k", problem.k}})
    if (size < 1) refuse(std::string("problem.") + name, "1 .. 2^40", std::to_string(size));
}

void check_measurement(const Measurement& m) {
  if (!(m.median_us > 0 && m.median_us <= kMostMicroseconds))
    refuse("measurement.median_us", "above 0, at most " + number_text(kMostMicroseconds),
           number_text(m.median_us));
  check_number("measurement.spread", m.spread, kMostSpread);
  check_count("measurement.samples", m.samples);
  check_count("measurement.launches_per_sample", m.launches_per_sample);
  for (const double sample : m.samples_us)
    check_number("measurement.samples_us", sample, kMostMicroseconds);
  check_name("measurement.method", m.method);
  check_number("measurement.sm_clock_mhz", m.sm_clock_mhz, kMostMegahertz);
  check_number("measurement.power_w", m.power_w, kMostWatts);
  check_number("measurement.host_us", m.host_us, kMostMicroseconds);
  check_number("measurement.energy_mj", m.energy_mj, kMostMillijoules);
  check_number("measurement.power_limit_w", m.power_limit_w, kMostWatts);
}

void check_usage(const ResourceUsage& usage) {
  check_count("registers", usage.registers);
  check_count("spill_bytes", usage.spill_bytes);
  check_count("static_shared_bytes", usage.static_shared_bytes);
  check_count("stack_bytes", usage.stack_bytes);
}

void check_environment(const Environment& environment) {
  check_name("environment.driver", environment.driver);
  check_name("environment.compiler", environment.compiler);
  check_name("environment.host", environment.host);
  check_imported_date("environment.date", environment.date);
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

void check_imported(const Record& record) {
  check_problem(record.problem);
  check_identifier("kernel_template", record.candidate.kernel_template);
  for (const auto& [name, value] : record.candidate.configuration.values())
    check_identifier("the name of a parameter", name);
  check_required_name("gpu", record.gpu);
  check_name("source_hash", record.source_hash);
  check_name("launch_revision", record.launch_revision);
  check_name("code_hash", record.code_hash);
  if (record.measurement) check_measurement(*record.measurement);
  check_usage(record.usage);
  check_number("compile_ms", record.compile_ms, kMostMilliseconds);
  check_number("error_ratio", record.error_ratio, kNoLimit);
  check_number("normwise_error", record.normwise_error, kNoLimit);
  check_number("predicted_us", record.predicted_us, kNoLimit);
  check_environment(record.environment);
}

void check_imported(const Baseline& baseline) {
  check_problem(baseline.problem);
  check_required_name("gpu", baseline.gpu);
  check_required_name("library", baseline.library);
  check_name("version", baseline.version);
  check_name("variant", baseline.variant);
  check_measurement(baseline.measurement);
  check_environment(baseline.environment);
}

void check_imported(const DeviceFacts& facts) {
  check_required_name("gpu", facts.gpu);
  check_count("clock_khz", facts.clock_khz);
  check_count("memory_clock_khz", facts.memory_clock_khz);
  check_count("memory_bus_bits", facts.memory_bus_bits);
  check_count("memory_bytes", facts.memory_bytes);
  check_count("l2_bytes", facts.l2_bytes);
  check_number("power_limit_w", facts.power_limit_w, kMostWatts);
  check_imported_date("date", facts.date);
}

void check_imported(const Image& image) {
  check_required_name("the source of a kernel", image.kernel.source);
  check_identifier("the entry of a kernel", image.kernel.entry);
  check_name("source_hash", image.source_hash);
  check_name("launch_revision", image.launch_revision);
  check_usage(image.usage);
  check_number("compile_ms", image.compile_ms, kMostMilliseconds);
}

}  // namespace tilewise
