#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A tunable with its values. `labels`, when not empty, names each value for people.
struct Parameter {
  std::string name;
  std::vector<int> values;
  std::string help;  ///< one line
  std::vector<std::string> labels = {};
};

/// What a constraint looks at. Everything is a plain value: no device is needed.
struct ConstraintInput {
  const Problem& problem;
  const Configuration& configuration;
  const DeviceInfo& device;
};

/// A named condition a configuration must meet. `reads` lists every parameter `holds` looks at, so
/// that a partial configuration can be refused early; a test checks that the list is complete.
struct Constraint {
  std::string name;
  std::vector<std::string> reads;
  std::string text;  ///< in words: "TILE_M is a multiple of THREAD_M"
  std::function<bool(const ConstraintInput&)> holds;
  /// About speed only: the search obeys it, serving a stored winner or a default does not.
  bool for_search_only = false;
};

/// A kernel source plus its parameters, named constraints, and the plan it makes.
/// All members are pure functions; safe to call from any thread.
struct KernelTemplate {
  std::string name;     ///< "simt"
  std::string summary;  ///< one line for `autotune templates`
  int revision = 1;  ///< raised when arguments or meaning change: stored images stop being served
  std::vector<Parameter> parameters;
  std::vector<Constraint> constraints;
  /// Types and math modes it can do on a device at all.
  std::function<bool(const Problem&, const DeviceInfo&)> supports;
  /// Requires a valid configuration (see rejection()).
  std::function<Plan(const Problem&, const Configuration&, const DeviceInfo&)> plan;
  /// Valid for every problem of this layout and type with element alignment.
  std::function<Configuration(const Problem&, const DeviceInfo&)> default_configuration;
  /// m, n and k are constants of every kernel, whatever the configuration: an image serves one
  /// size.
  bool size_specialised = false;
  /// Where nothing is stored, the templates' defaults are tried in the order of this number, least
  /// first. It depends on the problem, not on the device.
  std::function<int(const Problem&)> default_rank = [](const Problem&) { return 30; };
};

/// Every template, in one explicit table (families/families.hpp).
std::span<const KernelTemplate> catalog();
/// Adds a row to the catalog (tests, experiments). Throws Error(invalid_argument) when the name is
/// taken. Not safe beside concurrent lookups.
void add_template(KernelTemplate added);
/// Throws Error(not_found) naming the templates there are.
const KernelTemplate& find_template(std::string_view name);

/// Empty when valid, else the first reason: "unknown parameter X", "TILE_M=3 is not one of ...", or
/// "constraint shared_fits: ...". Also checks supports().
std::string rejection(const KernelTemplate& kernel, const Problem& problem,
                      const Configuration& configuration, const DeviceInfo& device);

/// Raised with the plan's meaning: argument layout rules, step roles.
inline constexpr int kPlanRevision = 4;
/// "simt.1 plan.2": whether a stored image may be served. Needs no compiler.
std::string launch_revision(const KernelTemplate& kernel);

}  // namespace tilewise
