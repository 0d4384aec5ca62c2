#include "templates/space/candidate_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <span>

#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

/// Parameters that are written as one item.
struct Group {
  std::string_view name;
  char separator;
  std::array<std::string_view, 3> parameters;  // the third is optional in a template
};
constexpr std::array kGroups{
    Group{"tile", 'x', {"TILE_M", "TILE_N", "TILE_K"}},
    Group{"thread", 'x', {"THREAD_M", "THREAD_N", ""}},
    Group{"warp", 'x', {"WARP_M", "WARP_N", ""}},
    Group{"pack", '/', {"PACK_A", "PACK_B", ""}},
    Group{"transpose", '/', {"TRANSPOSE_A", "TRANSPOSE_B", ""}},
    Group{"pad", '/', {"PAD_A", "PAD_B", ""}},
    Group{"bytes", '/', {"BYTES_A", "BYTES_B", ""}},
    Group{"vector", '/', {"VECTOR_A", "VECTOR_B", "VECTOR_C"}},
};
constexpr const Group& kTile = kGroups.front();

Error bad(const std::string& message) { return {ErrorKind::invalid_argument, message}; }

const Parameter* find_parameter(const KernelTemplate& kernel, std::string_view name) {
  for (const Parameter& parameter : kernel.parameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

/// The group's parameters that the template has; empty when it lacks one of the first two.
std::vector<const Parameter*> members(const Group& group, const KernelTemplate& kernel) {
  std::vector<const Parameter*> found;
  for (const std::string_view name : group.parameters)
    if (const Parameter* parameter = find_parameter(kernel, name)) found.push_back(parameter);
  const bool whole =
      find_parameter(kernel, group.parameters[0]) && find_parameter(kernel, group.parameters[1]);
  return whole ? found : std::vector<const Parameter*>{};
}

/// Null for a value without a label.
const std::string* label_of(const Parameter& parameter, int value) {
  const auto at = std::find(parameter.values.begin(), parameter.values.end(), value);
  const auto index = static_cast<std::size_t>(at - parameter.values.begin());
  return index < parameter.labels.size() ? &parameter.labels[index] : nullptr;
}

std::string value_text(const Parameter& parameter, int value) {
  const std::string* label = label_of(parameter, value);
  return label ? *label : std::to_string(value);
}

bool is_plain(const Parameter& parameter, int value) {
  const int* plain = plain_value(parameter);
  return plain && *plain == value;
}

std::string group_text(const Group& group, std::span<const Parameter* const> parameters,
                       const Configuration& configuration) {
  std::string values;
  bool plain = true;
  for (const Parameter* parameter : parameters) {
    const int value = configuration.at(parameter->name);
    plain &= is_plain(*parameter, value);
    if (!values.empty()) values += group.separator;
    values += value_text(*parameter, value);
  }
  if (&group == &kTile) return " " + values;
  return plain && group.separator == '/' ? "" : " " + std::string(group.name) + "=" + values;
}

// Reading -----------------------------------------------------------------------------------------

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find_first_of(separators)) != text.npos;
       text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

class Reader {
 public:
  explicit Reader(const std::vector<const KernelTemplate*>& templates) : templates_(templates) {}

  Subspace take() { return std::move(values_); }

  void item(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string name = lower_case(text.substr(0, equals));
    if (equals == text.npos && !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])))
      return group(kTile, text, text);
    if (name.empty() || (equals != text.npos && equals + 1 == text.size()))
      throw bad("\"" + std::string(text) +
                "\" is not NAME=VALUE,VALUE...; values are written as in "
                "TILE_M=64,128;PREFETCH=2 or 128x128x8 thread=8x8 warp_m=4");
    const std::string_view values =
        equals == text.npos ? std::string_view("yes") : text.substr(equals + 1);
    for (const Group& known : kGroups)
      if (known.name == name && is_group(known) && values.find(known.separator) != values.npos)
        return group(known, values, text);
    const std::string parameter = parameter_named(name);
    for (const std::string_view value : split(values, ","))
      put(parameter, value_of(parameter, value, text));
    named(parameter, text);
  }

 private:
  /// Whether a template has the group's parameters. (`tiled` has a single parameter TILE.)
  bool is_group(const Group& group) const {
    return std::any_of(templates_.begin(), templates_.end(), [&](const KernelTemplate* kernel) {
      return !members(group, *kernel).empty();
    });
  }

  void group(const Group& group, std::string_view values, std::string_view item) {
    const char separator[] = {group.separator, '\0'};
    const auto parts = split(values, separator);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i >= group.parameters.size() || group.parameters[i].empty() || parts.size() < 2)
        throw bad("\"" + std::string(item) + "\": write " + std::string(group.name) + " as in " +
                  (group.separator == 'x' ? "64x32" : "4/4") +
                  ", and alternatives parameter by parameter");
      const std::string parameter(group.parameters[i]);
      parameter_named(lower_case(parameter));
      put(parameter, value_of(parameter, parts[i], item));
      named(parameter, item);
    }
  }

  /// The parameter's name as templates spell it.
  std::string parameter_named(const std::string& name) const {
    for (const KernelTemplate* kernel : templates_)
      for (const Parameter& parameter : kernel->parameters)
        if (lower_case(parameter.name) == name) return parameter.name;
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    throw no_such_parameter(upper, templates_);
  }

  int value_of(const std::string& parameter, std::string_view text, std::string_view item) const {
    if (const auto number = number_in<int>(text)) return *number;
    const std::string wanted = lower_case(text);
    std::string labels, meant_by;
    std::optional<int> meant;
    for (const KernelTemplate* kernel : templates_) {
      const Parameter* found = find_parameter(*kernel, parameter);
      for (std::size_t i = 0; found && i < found->labels.size(); ++i) {
        labels += ", " + found->labels[i];
        if (lower_case(found->labels[i]) != wanted) continue;
        const int value = found->values[i];
        if (meant && *meant != value)
          throw bad("\"" + std::string(text) + "\" in \"" + std::string(item) + "\" is " +
                    std::to_string(*meant) + " of " + meant_by + " and " + std::to_string(value) +
                    " of " + kernel->name + "; write the number, or choose one template");
        meant = value;
        meant_by = kernel->name;
      }
    }
    if (meant) return *meant;
    throw bad("\"" + std::string(text) + "\" in \"" + std::string(item) +
              "\" is not a whole number" +
              (labels.empty() ? "" : " nor one of" + labels.substr(1)) +
              "; values are written as in TILE_M=64,128");
  }

  void put(const std::string& parameter, int value) {
    std::vector<int>& values = values_[parameter];
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }

  void named(const std::string& parameter, std::string_view item) {
    if (std::find(named_.begin(), named_.end(), parameter) != named_.end())
      throw bad(parameter + " is given twice, the second time by \"" + std::string(item) + "\"");
    named_.push_back(parameter);
  }

  const std::vector<const KernelTemplate*>& templates_;
  std::vector<std::string> named_;
  Subspace values_;
};

}  // namespace

const char* const kCandidateLegend =
    "Configurations read: simt 128x128x8 thread=8x8 vector=4/4/4 warp_m=4 prefetch=tma-4 "
    "group_m=8\n"
    "  128x128x8     rows x columns x depth of a block's tile (TILE_M, TILE_N, TILE_K)\n"
    "  thread=, warp=  what one thread, or one warp, computes of it\n"
    "  4/4/4         the values of A, B and C\n"
    "  NAME=VALUE    a parameter that `autotune templates` explains; NAME alone means yes\n"
    "  left out      no or none, the first of other words, else 1, else 0\n"
    "--only and --subspace take this form, too. As NAME {\"PARAMETER\":VALUE} what is left out\n"
    "has the template's default.";

Error no_such_parameter(const std::string& name,
                        const std::vector<const KernelTemplate*>& templates) {
  std::set<std::string> names;
  for (const KernelTemplate* kernel : templates)
    for (const Parameter& parameter : kernel->parameters) names.insert(parameter.name);
  return bad("no chosen template has a parameter " + name + "; there are " + join(names));
}

const int* plain_value(const Parameter& parameter) {
  for (std::size_t i = 0; i < parameter.labels.size(); ++i)
    if (parameter.labels[i] == "no" || parameter.labels[i] == "none") return &parameter.values[i];
  if (!parameter.labels.empty()) return &parameter.values.front();
  for (const int wanted : {1, 0})
    for (const int& value : parameter.values)
      if (value == wanted) return &value;
  return nullptr;
}

std::string short_text(const Candidate& candidate) {
  const auto all = catalog();
  const auto kernel = std::find_if(all.begin(), all.end(), [&](const KernelTemplate& known) {
    return known.name == candidate.kernel_template;
  });
  if (kernel == all.end() || !bad_values(*kernel, candidate.configuration).empty())
    return to_string(candidate);
  const Configuration configuration = with_added(*kernel, candidate.configuration);
  std::string text = candidate.kernel_template;
  std::vector<const Parameter*> written;
  for (const Group& group : kGroups) {
    const auto parameters = members(group, *kernel);
    if (parameters.empty()) continue;
    text += group_text(group, parameters, configuration);
    written.insert(written.end(), parameters.begin(), parameters.end());
  }
  for (const Parameter& parameter : kernel->parameters) {
    if (std::find(written.begin(), written.end(), &parameter) != written.end()) continue;
    const int value = configuration.at(parameter.name);
    if (is_plain(parameter, value)) continue;
    text += " " + lower_case(parameter.name);
    if (const std::string written_value = value_text(parameter, value); written_value != "yes")
      text += "=" + written_value;
  }
  return text;
}

Subspace parse_values(std::string_view text, const std::vector<const KernelTemplate*>& templates) {
  Reader reader(templates);
  for (const std::string_view item : split(text, "; \t\n"))
    if (!item.empty()) reader.item(item);
  return reader.take();
}

Configuration parse_configuration(std::string_view text, const KernelTemplate& kernel) {
  const Subspace values = parse_values(text, {&kernel});
  for (const Parameter& parameter : kernel.parameters)
    if (const auto named = values.find(parameter.name); named != values.end())
      for (const int value : named->second)
        if (std::find(parameter.values.begin(), parameter.values.end(), value) ==
            parameter.values.end())
          throw bad(not_one_of(parameter.name, value, parameter.values));
  Configuration configuration;
  for (const Parameter& parameter : kernel.parameters) {
    const auto named = values.find(parameter.name);
    if (named == values.end()) {
      const int* plain = plain_value(parameter);
      if (!plain)
        throw bad(kernel.name + " needs a value of " + parameter.name + ": one of " +
                  join(parameter.values));
      configuration.set(parameter.name, *plain);
    } else if (named->second.size() > 1) {
      throw bad(parameter.name + " has several values; a candidate has one");
    } else {
      configuration.set(parameter.name, named->second.front());
    }
  }
  return configuration;
}

}  // namespace tilewise
