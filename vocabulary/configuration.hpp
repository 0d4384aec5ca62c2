#pragma once
#include <compare>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewise {

/// One value for each parameter of a kernel template, kept sorted by name. A value type.
class Configuration {
 public:
  Configuration() = default;
  Configuration(std::initializer_list<std::pair<std::string, int>> values);

  /// Inserts or replaces a value.
  void set(std::string_view name, int value);
  /// Value of a parameter. Throws Error(invalid_argument) with the name of an absent parameter.
  int at(std::string_view name) const;
  /// Null when absent.
  const int* find(std::string_view name) const;
  const std::vector<std::pair<std::string, int>>& values() const { return values_; }

  /// Canonical JSON, the database's form: {"TILE_K":8,"TILE_M":128} - names sorted, no spaces.
  std::string text() const;
  /// Accepts any JSON object of integers. Throws Error(invalid_argument).
  static Configuration parse(std::string_view json);

  auto operator<=>(const Configuration&) const = default;

 private:
  std::vector<std::pair<std::string, int>> values_;
};

/// A kernel template (by name) and a configuration of it, for one problem on one device.
struct Candidate {
  std::string kernel_template;
  Configuration configuration;
  auto operator<=>(const Candidate&) const = default;
};

/// "simt {"TILE_K":8,...}".
std::string to_string(const Candidate& candidate);

}  // namespace tilewise
