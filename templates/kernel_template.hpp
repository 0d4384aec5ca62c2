#pragma once
#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "templates/plan/sum_order.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A tunable parameter with its values. `labels`: empty, or a name for each value. `added`: stored
/// configurations of earlier versions lack it; they mean its first value.
struct Parameter {
  std::string name;
  std::vector<int> values;
  std::string help;  ///< one line
  std::vector<std::string> labels = {};
  bool added = false;
};
/// A parameter that configurations of earlier versions lack.
inline Parameter added(Parameter parameter) {
  parameter.added = true;
  return parameter;
}

/// The input of a constraint: plain values, no device is needed. `numbers`: a place for what the
/// constraints of one input compute alike, empty before the first; or null.
struct ConstraintInput {
  const Problem& problem;
  const Configuration& configuration;
  const DeviceInfo& device;
  std::any* numbers = nullptr;
};

/// A named condition on configurations. `reads` lists every parameter that `holds` reads, so that a
/// partial configuration can be refused early; a test checks that the list is complete.
struct Constraint {
  std::string name;
  std::vector<std::string> reads;
  std::string text;  ///< in words: "TILE_M is a multiple of THREAD_M"
  std::function<bool(const ConstraintInput&)> holds;
  /// Concerns speed only: the search obeys it; stored winners and defaults need not meet it.
  bool for_search_only = false;
  /// Problems that it concerns; null: all. It holds for all others, and the draws of their searches
  /// do not depend on it.
  bool (*concerns)(const Problem&) = nullptr;
  /// Parameters of further work. A configuration that misses the constraint, and would meet it with
  /// their first values, does that work in vain.
  std::vector<std::string> of_work = {};
};

/// A product's use of the stages of shared memory that TMA fills.
struct PipelineUse {
  double releases = 0;  ///< how often a warp hands a stage back; 0: TMA fills none
  double tiles = 0;     ///< of k that pass through a block's pipeline, about
  int stages = 0;       ///< of the pipeline: with more tiles than these, stages are filled again
};

/// The part of C that one block, warp or thread computes.
struct TileLevel {
  std::string name;  ///< "block", "warpgroup", "warp", "thread"
  std::int64_t m = 0, n = 0;
  std::string note = {};  ///< what else shares the part, or how it is laid out
};

/// A kernel family: its parameters, constraints, and the plans it makes.
/// All functions are pure; safe to call from any thread.
struct KernelTemplate {
  std::string name;     ///< "simt"
  std::string summary;  ///< one line for `autotune templates`
  int revision = 1;     ///< raised when arguments or meaning change: older images are not served
  std::vector<Parameter> parameters;
  std::vector<Constraint> constraints;
  /// Whether the family supports a problem's types, math mode and sizes on a device.
  std::function<bool(const Problem&, const DeviceInfo&)> supports;
  /// Requires a valid configuration (see rejection()).
  std::function<Plan(const Problem&, const Configuration&, const DeviceInfo&)> plan;
  /// A configuration that is valid for every supported problem of this layout and these types, at
  /// any alignment.
  std::function<Configuration(const Problem&, const DeviceInfo&)> default_configuration;
  /// m, n and k are constants of the kernel in every configuration: an image serves one size.
  bool size_specialised = false;
  /// Whether it computes grouped products. The catalog adds the constraint that these have k in one
  /// part and no constant sizes; without it, that the family does not support them.
  bool grouped = false;
  /// Whether it scales blocks of k (has_scales()); without it, the family does not support them.
  bool scales = false;
  /// The parameter whose value 1 makes sizes constants of the kernel, and 0 does not; empty: none.
  std::string specialises = {};
  /// Parameters that follow from the size, and are arguments of the kernel as long as the plan's
  /// kernels are equal: serving another size chooses their values anew.
  std::vector<std::string> of_size = {};
  /// Without a stored winner, the templates' defaults are tried in the order of this number, least
  /// first. It depends on the problem, not on the device.
  std::function<int(const Problem&)> default_rank = [](const Problem&) { return 30; };
  /// The order in which the plan adds products; none where it depends on m, the batch or the number
  /// of multiprocessors, or is not known. Requires a valid configuration.
  std::function<std::optional<SumOrder>(const Problem&, const Configuration&, const DeviceInfo&)>
      sum_order = [](const Problem&, const Configuration&, const DeviceInfo&) {
        return std::optional<SumOrder>();
      };
  /// The parameters that `sum_order` reads. The catalog adds a constraint to each template: the
  /// order of the plan is that of the problem (Problem::order).
  std::vector<std::string> sum_order_reads = {};
  /// How one product uses a pipeline that TMA fills. Requires a valid configuration.
  std::function<PipelineUse(const Problem&, const Configuration&)> pipeline_use =
      [](const Problem&, const Configuration&) { return PipelineUse{}; };
  /// The parts of C from the block inwards, for the pages that draw them; none where they are not
  /// rectangles. Requires a valid configuration.
  std::function<std::vector<TileLevel>(const Problem&, const Configuration&)> tile_levels =
      [](const Problem&, const Configuration&) { return std::vector<TileLevel>{}; };
  /// Whether tensor cores multiply, in every configuration.
  bool tensor_cores = false;
  /// Not null: all valid configurations, each once, where these are a list and follow from no rule
  /// (a recorded space). `constraints` must say the same. Lists and draws are made from it.
  std::shared_ptr<const std::vector<Configuration>> listed = nullptr;
};

/// Every template, in one explicit table (families/families.hpp).
std::span<const KernelTemplate> catalog();
/// Adds a row to the catalog (tests, experiments). Throws Error(invalid_argument) when the name is
/// taken. Not safe beside concurrent lookups.
void add_template(KernelTemplate added);
/// Throws Error(not_found), which lists the known templates.
const KernelTemplate& find_template(std::string_view name);
/// The template of this name; null without one.
const KernelTemplate* known_template(std::string_view name);
/// The catalog, first the template whose default serves the problem where nothing is stored.
std::vector<const KernelTemplate*> by_default_rank(const Problem& problem);
/// A valid configuration, of the fewest changes to the default one: of at most two of the
/// parameters that the order of sums depends on, where the order of the problem is not that of
/// the default. None where there is none.
std::optional<Configuration> default_for(const KernelTemplate& kernel, const Problem& problem,
                                         const DeviceInfo& device);
/// The launches of a candidate. Throws Error(not_found).
Plan plan_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

/// The order in which a candidate adds products (KernelTemplate::sum_order). Throws
/// Error(not_found).
std::optional<SumOrder> sum_order_of(const Candidate& candidate, const Problem& problem,
                                     const DeviceInfo& device);
/// The order for the products of order_key() `key` where none is kept: that of the first template
/// in the order of default_rank whose default for many rows has one, with k in one part. Throws
/// Error(unsupported) without any.
SumOrder default_order(const Problem& key, const DeviceInfo& device);

/// "TILE_M=3 is not one of 1, 2, 4".
std::string not_one_of(const std::string& name, int value, const std::vector<int>& allowed);

/// Empty when the configuration has exactly the template's parameters, with values that these have;
/// else the first reason: "unknown parameter X", "parameter X is missing", "TILE_M=3 is not one of
/// ...".
std::string bad_values(const KernelTemplate& kernel, const Configuration& configuration);

/// The configuration with the first value of each added parameter that it lacks (Parameter::added).
Configuration with_added(const KernelTemplate& kernel, Configuration configuration);

/// Empty when valid, else the first reason: "unknown parameter X", "TILE_M=3 is not one of ...", or
/// "constraint shared_fits: ...". Also checks supports().
std::string rejection(const KernelTemplate& kernel, const Problem& problem,
                      const Configuration& configuration, const DeviceInfo& device);

/// Whether rejection() is empty, without the words.
bool is_valid(const KernelTemplate& kernel, const Problem& problem,
              const Configuration& configuration, const DeviceInfo& device);

/// The same for a configuration that has no bad_values().
bool meets_constraints(const KernelTemplate& kernel, const Problem& problem,
                       const Configuration& configuration, const DeviceInfo& device);

/// Raised when the meaning of plans changes: argument layout, step roles.
inline constexpr int kPlanRevision = 6;
/// Raised when the words of the kernel dialect change what a kernel may rely on (templates/words):
/// images of all templates are made anew. 1: release_to_tma() has a proxy fence.
inline constexpr int kWordsRevision = 1;
/// "simt.1 plan.2 words.1": a stored image may be served where it has the same text. Needs no
/// compiler.
std::string launch_revision(const KernelTemplate& kernel);

}  // namespace tilewise
