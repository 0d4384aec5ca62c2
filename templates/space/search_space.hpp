#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/space/template_space.hpp"

namespace tilewise {

/// The named templates, or all of the catalog when `names` is empty. Throws Error(not_found).
std::vector<const KernelTemplate*> select_templates(const std::vector<std::string>& names = {});

/// The valid configurations of all templates that support a problem on a device. They are generated
/// on demand: the product of the value counts is 10^8 and more. Immutable after construction;
/// thread-safe.
class SearchSpace {
 public:
  /// Leaves out templates that do not support the problem on the device, and those with a parameter
  /// of `subspace` but none of its values. Throws Error(invalid_argument) for a parameter or a
  /// value that no template of `templates` has; Error(unsupported) when no template is left.
  SearchSpace(const Problem& problem, const DeviceInfo& device,
              std::vector<const KernelTemplate*> templates, Subspace subspace = {});

  const Problem& problem() const { return problem_; }
  const DeviceInfo& device() const { return device_; }
  const std::vector<const KernelTemplate*>& templates() const { return templates_; }

  /// Product of the value counts over all templates, valid or not.
  double raw_size() const;

  /// Calls `visit` for each valid candidate in a fixed order, until it returns false. Each
  /// constraint prunes as soon as the parameters that it reads are set.
  void for_each(const std::function<bool(const Candidate&)>& visit) const;

  /// Number of valid candidates; empty when there are more than `limit`.
  std::optional<std::int64_t> count(std::int64_t limit) const;
  /// Number of valid configurations of one of templates().
  PointCount count_of(const KernelTemplate& kernel, const CountLimits& limits = {}) const;

  /// One valid candidate: a uniform template, then uniform parameters by rejection (where almost no
  /// draw is valid, axis by axis). Empty when none was found in `attempts` draws.
  std::optional<Candidate> random(std::mt19937_64& generator, int attempts = 1'000'000) const;
  /// The same, of one of templates().
  std::optional<Candidate> random_of(const KernelTemplate& kernel, std::mt19937_64& generator,
                                     int attempts = 1'000'000) const;

  /// Valid candidates that differ from `from` in one parameter, nearest values first; then those
  /// that differ in two, where the change of one alone is refused. Empty for a template that is not
  /// in this space.
  std::vector<Candidate> neighbours(const Candidate& from) const;

  /// Each template's default configuration, where valid (for_search_only constraints are ignored).
  std::vector<Candidate> defaults() const;

  bool contains(const Candidate& candidate) const;
  /// The same without the constraints that are for the search only: what serves, as a candidate of
  /// another size, need not meet these.
  bool allows(const Candidate& candidate) const;

  /// By constraint name, how many of `draws` random raw configurations it is the first to refuse.
  /// Valid draws are not counted. For `autotune space`.
  std::map<std::string, std::int64_t> rejections(std::mt19937_64& generator, int draws) const;

 private:
  const TemplateSpace* space_of(const std::string& kernel_template) const;

  Problem problem_;
  DeviceInfo device_;
  std::vector<const KernelTemplate*> templates_;
  std::vector<TemplateSpace> spaces_;  // in the order of templates_
};

}  // namespace tilewise
