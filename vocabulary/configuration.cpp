#include "vocabulary/configuration.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

bool before(const std::pair<std::string, int>& entry, std::string_view name) {
  return entry.first < name;
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
// length differ in their last character.
const int* Configuration::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (const auto& [own, value] : values_)
    if (own.size() == name.size() && own.back() == name.back() && own == name) return &value;
  return nullptr;
}

std::string Configuration::text() const {
  std::string out = "{";
  for (const auto& [name, value] : values_) {
    if (out.size() > 1) out += ',';
    // The JSON library escapes any name so that it parses to itself.
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
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) throw bad(parsed.is_discarded() ? "not JSON" : "not an object");
  Configuration result;
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
