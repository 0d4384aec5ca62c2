#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/known_answers.hpp"
#include "templates/space/candidate_text.hpp"
#include "templates/space/space_count.hpp"

namespace tilewise {

/// One of 0 .. count-1. The same on every platform, unlike std::uniform_int_distribution.
inline std::size_t random_index(std::mt19937_64& generator, std::size_t count) {
  return static_cast<std::size_t>(generator() % count);
}

/// The valid configurations of one kernel template for a problem on a device: a part of
/// SearchSpace. Parameters are set one after another, in an order in which constraints apply early.
/// Each constraint is evaluated as soon as the parameters that it reads are set; results are
/// cached. Immutable after construction, but for what is cached; thread-safe.
class TemplateSpace {
 public:
  TemplateSpace(const KernelTemplate& kernel, const Problem& problem, const DeviceInfo& device,
                const Subspace& subspace);

  const KernelTemplate& kernel() const { return *kernel_; }
  double raw_size() const;
  bool contains(const Configuration& configuration) const;
  /// The same without the constraints that are for the search only: defaults need not meet these.
  bool allows(const Configuration& configuration) const;

  /// Calls `visit` for each valid configuration, in a fixed order, until it returns false. Returns
  /// whether it never did.
  bool for_each(const std::function<bool(const Configuration&)>& visit) const;

  /// A random valid configuration: exactly uniform, by rejection, where the space is dense enough;
  /// see template_space.cpp. Calls after one that found none try less and
  /// less, not at all where it is known that there is none: of many templates for a problem one
  /// may be empty.
  std::optional<Configuration> random(std::mt19937_64& generator, int attempts) const;

  /// Valid configurations with one parameter changed, nearest values first; then those with two
  /// changed, where the first change alone is refused by a constraint that reads the second.
  std::vector<Configuration> neighbours(const Configuration& from) const;

  /// The number of valid configurations: exact, or an estimate with its error.
  PointCount count(const CountLimits& limits = {}) const;

  /// The first constraint that refuses a raw draw; null when the draw is valid.
  const Constraint* refusal_of_draw(std::mt19937_64& generator) const;

 private:
  struct Axis {
    std::string name;
    std::vector<int> values;
  };
  using Point = SpacePoint;
  /// A constraint on points. A combination of the values that it reads has one number: the sum of
  /// each value's index times a factor.
  struct Check {
    struct Read {
      std::size_t axis;
      std::uint64_t factor;
    };
    const Constraint* constraint;
    std::vector<Read> reads;
    std::shared_ptr<KnownAnswers> known;
  };
  using Checks = std::vector<Check>;

  void order_axes(std::vector<Axis> axes);
  Check make_check(const Constraint& constraint) const;
  bool holds(const Check& check, const Point& point) const;
  bool hold(const Checks& checks, const Point& point) const;
  bool valid(const Point& point) const;
  std::optional<Point> point_of(const Configuration& configuration) const;
  Configuration configuration_of(const Point& point) const;
  const Check* refusal(const Point& point) const;
  bool visit_from(std::size_t depth, Point& point,
                  const std::function<bool(const Configuration&)>& visit) const;
  std::optional<Configuration> random_listed(std::mt19937_64& generator, int attempts) const;
  bool draw(std::mt19937_64& generator, Point& point) const;
  bool descend(std::size_t depth, std::mt19937_64& generator, Point& point, int& steps) const;
  std::optional<Point> repaired(const Point& broken, std::size_t axis) const;

  const KernelTemplate* kernel_;
  Problem problem_;
  DeviceInfo device_;
  std::vector<Axis> axes_;            // in the order of setting
  std::vector<Checks> checks_;        // by axis: the constraints that can be checked from it on
  Checks always_;                     // constraints that read no parameter
  Checks in_order_;                   // all of them, in the template's order
  Configuration first_;               // every parameter at its first value
  std::vector<std::size_t> by_name_;  // axes in the order of first_'s names
  /// By how many bits random()'s attempts are shortened: 2 for each call in a row that found none;
  /// kEmpty where there is none.
  std::shared_ptr<std::atomic<int>> shorter_ = std::make_shared<std::atomic<int>>(0);
  static constexpr int kEmpty = 31;
};

}  // namespace tilewise
