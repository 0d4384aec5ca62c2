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

/// The valid configurations of all templates that support a problem on a device, generated lazily:
/// the raw product is 10^8 and more. Immutable after construction; thread-safe.
class SearchSpace {
 public:
  /// Templates that do not support the problem on the device are left out, and so are those that
  /// have a narrowed parameter but none of the values. Throws Error(invalid_argument) for a
  /// parameter or a value that no chosen template has; Error(unsupported) when no template is left.
  SearchSpace(const Problem& problem, const DeviceInfo& device,
              std::vector<const KernelTemplate*> templates, Subspace subspace = {});

  const Problem& problem() const { return problem_; }
  const DeviceInfo& device() const { return device_; }
  const std::vector<const KernelTemplate*>& templates() const { return templates_; }

  /// Product of the value counts over all templates, valid or not.
  double raw_size() const;

  /// Calls `visit` for each valid candidate in a fixed order until it returns false. Prunes as soon
  /// as the parameters that a constraint reads are set.
  void for_each(const std::function<bool(const Candidate&)>& visit) const;

  /// Number of valid candidates, or nothing when there are more than `limit`.
  std::optional<std::int64_t> count(std::int64_t limit) const;
  /// Number of valid configurations of one of templates(), however many there are.
  PointCount count_of(const KernelTemplate& kernel, const CountLimits& limits = {}) const;

  /// One valid candidate: template uniform, then every parameter uniform, by rejection (where
  /// almost no draw is valid, axis by axis). Nothing when none was found in `attempts` draws.
  std::optional<Candidate> random(std::mt19937_64& generator, int attempts = 1'000'000) const;
  /// The same, of one of templates().
  std::optional<Candidate> random_of(const KernelTemplate& kernel, std::mt19937_64& generator,
                                     int attempts = 1'000'000) const;

  /// Valid candidates that differ from `from` in one parameter, nearest values first; then those
  /// that differ in two, where changing the one alone is refused. Empty for a template not in this
  /// space.
  std::vector<Candidate> neighbours(const Candidate& from) const;

  /// Each template's default configuration, when valid here (constraints for the search aside).
  std::vector<Candidate> defaults() const;

  bool contains(const Candidate& candidate) const;

  /// Why a draw fails: constraint name -> how many of `draws` random raw configurations it refuses
  /// first. Valid draws are not in it. For `autotune space` and for people who wonder.
  std::map<std::string, std::int64_t> rejections(std::mt19937_64& generator, int draws) const;

 private:
  const TemplateSpace* space_of(const std::string& kernel_template) const;

  Problem problem_;
  DeviceInfo device_;
  std::vector<const KernelTemplate*> templates_;
  std::vector<TemplateSpace> spaces_;  // in the order of templates_
};

}  // namespace tilewise
