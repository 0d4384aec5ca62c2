#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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

/// The valid configurations of one kernel template for a problem on a device: SearchSpace's part.
/// Parameters are set one after another, in an order that lets constraints speak early; each
/// constraint is asked as soon as all it reads is set, and its answers are remembered. Immutable
/// from outside after construction; thread-safe.
class TemplateSpace {
 public:
  TemplateSpace(const KernelTemplate& kernel, const Problem& problem, const DeviceInfo& device,
                const Subspace& subspace);

  const KernelTemplate& kernel() const { return *kernel_; }
  double raw_size() const;
  bool contains(const Configuration& configuration) const;
  /// The same, apart from constraints that are for the search only: a default may ignore those.
  bool allows(const Configuration& configuration) const;

  /// Calls `visit` for each valid configuration, in a fixed order, until it returns false; says
  /// whether it never did.
  bool for_each(const std::function<bool(const Configuration&)>& visit) const;

  /// By rejection, exactly uniform, while the space is dense enough; see template_space.cpp.
  std::optional<Configuration> random(std::mt19937_64& generator, int attempts) const;

  /// One parameter changed, nearest values first; then those changes that are valid only together
  /// with another parameter of the constraint that refused them.
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
  /// A constraint on points. What it reads makes one number: each value's place times a factor.
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
  bool draw(std::mt19937_64& generator, Point& point) const;
  bool descend(std::size_t depth, std::mt19937_64& generator, Point& point, int& steps) const;
  std::optional<Point> repaired(const Point& broken, std::size_t axis) const;

  const KernelTemplate* kernel_;
  Problem problem_;
  DeviceInfo device_;
  std::vector<Axis> axes_;            // in the order they are set
  std::vector<Checks> checks_;        // by axis: the constraints that it completes
  Checks always_;                     // constraints that read no parameter
  Checks in_order_;                   // all of them, in the template's order
  Configuration first_;               // every parameter at its first value
  std::vector<std::size_t> by_name_;  // axes in the order of first_'s names
};

}  // namespace tilewise
