#include "vocabulary/configuration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

bool before(const std::pair<std::string, int>& entry, std::string_view name) {
  return entry.first < name;
}

/// Compares names, which usually have 5 to 16 characters, without a call.
bool equal(const char* x, const char* y, std::size_t size) {
  if (size < 8 || size > 16) return std::memcmp(x, y, size) == 0;
  std::uint64_t first_x, first_y, last_x, last_y;
  std::memcpy(&first_x, x, 8), std::memcpy(&last_x, x + size - 8, 8);
  std::memcpy(&first_y, y, 8), std::memcpy(&last_y, y + size - 8, 8);
  return first_x == first_y && last_x == last_y;
}

/// The characters of parameters' names that JSON does not escape.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (const char c :
       std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"))
    plain[static_cast<unsigned char>(c)] = true;
  return plain;
}();
bool is_plain(char c) { return kPlain[static_cast<unsigned char>(c)]; }

/// Parses text() of plain names; empty for any other text. A program that opens a database reads
/// thousands of configurations, and the JSON library takes ten times as long.
std::optional<std::vector<std::pair<std::string, int>>> parse_plain(std::string_view json) {
  if (json.size() < 2 || json.front() != '{' || json.back() != '}') return {};
  std::vector<std::pair<std::string, int>> values;
  values.reserve(static_cast<std::size_t>(std::count(json.begin(), json.end(), ':')));
  const char *at = json.data() + 1, *const end = json.data() + json.size() - 1;
  while (at != end) {
    if (!values.empty() && *at++ != ',') return {};
    if (at == end || *at++ != '"') return {};
    const char* const closing = std::find_if_not(at, end, [](char c) { return is_plain(c); });
    const std::string_view name(at, static_cast<std::size_t>(closing - at));
    if (end - closing < 3 || closing[0] != '"' || closing[1] != ':') return {};
    if (!values.empty() && !(values.back().first < name)) return {};
    int value = 0;
    const char* const number = closing + 2;
    const auto [next, error] = std::from_chars(number, end, value);
    const char* const digits = number + (*number == '-' ? 1 : 0);
    if (error != std::errc() || (*digits == '0' && next - number > 1)) return {};
    values.emplace_back(name, value);
    at = next;
  }
  return values;
}

}  // namespace

Configuration::Configuration(std::initializer_list<std::pair<std::string, int>> values) {
  values_.reserve(values.size());
  for (const auto& [name, value] : values) set(name, value);
}

void Configuration::set(std::string_view name, int value) {
  for (auto& entry : values_) {
    if (entry.first != name) continue;
    entry.second = value;
    return;
  }
  values_.emplace(std::lower_bound(values_.begin(), values_.end(), name, before), name, value);
}

int Configuration::at(std::string_view name) const {
  if (const int* value = find(name)) return *value;
  throw Error(ErrorKind::invalid_argument,
              "the configuration " + text() + " has no parameter " + std::string(name));
}

// Linear search by equality: there are few names. Hot in constraints, where most names of the same
// length differ in their last character or in the middle.
const int* Configuration::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (const auto& [own, value] : values_)
    if (own.size() == name.size() && own.back() == name.back() &&
        own[name.size() / 2] == name[name.size() / 2] &&
        equal(own.data(), name.data(), name.size()))
      return &value;
  return nullptr;
}

std::string Configuration::text() const {
  std::string out = "{";
  out.reserve(20 * values_.size() + 2);
  for (const auto& [name, value] : values_) {
    if (out.size() > 1) out += ',';
    if (std::all_of(name.begin(), name.end(), [](char c) { return is_plain(c); }))
      out.append(1, '"').append(name).append(1, '"');
    else  // the JSON library escapes any name so that it parses to itself
      out += nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out += ':' + std::to_string(value);
  }
  return out + '}';
}

Configuration Configuration::parse(std::string_view json) {
  const auto bad = [&json](const std::string& why) {
    return Error(ErrorKind::invalid_argument, "bad configuration " + std::string(json) + ": " +
                                                  why +
                                                  "; it is a JSON object of whole numbers, as in "
                                                  "{\"TILE_K\":8,\"TILE_M\":128}");
  };
  Configuration result;
  if (auto plain = parse_plain(json)) {
    result.values_ = *std::move(plain);
    return result;
  }
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) throw bad(parsed.is_discarded() ? "not JSON" : "not an object");
  for (const auto& [name, value] : parsed.items()) {
    if (!value.is_number_integer()) throw bad(name + " is not a whole number");
    const bool huge = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<int>::max()};
    if (huge || value.get<std::int64_t>() < std::numeric_limits<int>::min()) {
      throw bad(name + " does not fit 32 bits");
    }
    result.set(name, value.get<int>());
  }
  return result;
}

std::string to_string(const Candidate& candidate) {
  return candidate.kernel_template + " " + candidate.configuration.text();
}

}  // namespace tilewise
