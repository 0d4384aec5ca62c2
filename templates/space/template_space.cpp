#include "templates/space/template_space.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

// Raw draws before a space counts as sparse. They take well below a millisecond.
constexpr int kPlainDraws = 200;
// Values tried axis by axis before the first restart: twice the median of a successful draw.
constexpr int kFirstDescent = 400;

bool contains_value(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// The indices of a list other than `present`, nearest first (below before above), with distances.
std::vector<std::pair<int, std::uint16_t>> by_distance(std::size_t count, std::uint16_t present) {
  std::vector<std::pair<int, std::uint16_t>> result;
  for (std::size_t i = 0; i < count; ++i)
    if (i != present)
      result.emplace_back(std::abs(static_cast<int>(i) - int{present}),
                          static_cast<std::uint16_t>(i));
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  return result;
}

}  // namespace

TemplateSpace::TemplateSpace(const KernelTemplate& kernel, const Problem& problem,
                             const DeviceInfo& device, const Subspace& subspace)
    : kernel_(&kernel), problem_(problem), device_(device) {
  std::vector<Axis> axes;
  for (const Parameter& parameter : kernel.parameters) {
    Axis axis{parameter.name, parameter.values};
    if (const auto narrowed = subspace.find(parameter.name); narrowed != subspace.end())
      std::erase_if(axis.values, [&](int v) { return !contains_value(narrowed->second, v); });
    if (!axis.values.empty()) first_.set(axis.name, axis.values.front());
    // Draws and neighbours must not depend on the order in which a template lists its values.
    std::sort(axis.values.begin(), axis.values.end());
    axes.push_back(std::move(axis));
  }
  order_axes(std::move(axes));
  for (const auto& entry : first_.values())
    for (std::size_t axis = 0; axis < axes_.size(); ++axis)
      if (axes_[axis].name == entry.first) by_name_.push_back(axis);
}

/// Repeatedly takes the constraint whose parameters not yet placed have the fewest combinations,
/// and places these, so that constraints refuse as early as possible. Parameters that no constraint
/// reads come last.
void TemplateSpace::order_axes(std::vector<Axis> axes) {
  std::vector<const Constraint*> waiting;
  std::map<const Constraint*, Check> made;
  for (const Constraint& constraint : kernel_->constraints)
    if (!constraint.concerns || constraint.concerns(problem_)) waiting.push_back(&constraint);
  const auto combinations = [&axes](const Constraint* constraint) {
    double product = 1;
    for (const Axis& axis : axes)
      if (std::count(constraint->reads.begin(), constraint->reads.end(), axis.name))
        product *= static_cast<double>(axis.values.size());
    return product;
  };
  const auto place = [this, &axes](const std::string& name) {
    const auto axis =
        std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.name == name; });
    if (axis == axes.end()) return;  // placed before
    axes_.push_back(std::move(*axis));
    checks_.emplace_back();
    axes.erase(axis);
  };
  while (!waiting.empty()) {
    const auto next = std::min_element(
        waiting.begin(), waiting.end(),
        [&](const auto* x, const auto* y) { return combinations(x) < combinations(y); });
    for (const std::string& name : (*next)->reads) {
      if (!first_.find(name))
        throw Error(ErrorKind::invalid_argument,
                    "constraint " + (*next)->name + " of template " + kernel_->name + " reads " +
                        name + ", which is no parameter of it or has no value");
      place(name);
    }
    // Where all axes that it reads were placed before, it may belong to an earlier axis than the
    // last one.
    std::size_t last = 0;
    for (std::size_t depth = 0; depth < axes_.size(); ++depth)
      if (std::count((*next)->reads.begin(), (*next)->reads.end(), axes_[depth].name)) last = depth;
    made[*next] = make_check(**next);
    ((*next)->reads.empty() ? always_ : checks_[last]).push_back(made[*next]);
    waiting.erase(next);
  }
  while (!axes.empty()) place(std::string(axes.front().name));
  for (const Constraint& constraint : kernel_->constraints)
    if (const auto check = made.find(&constraint); check != made.end())
      in_order_.push_back(check->second);
}

/// Requires that all parameters that the constraint reads are placed.
TemplateSpace::Check TemplateSpace::make_check(const Constraint& constraint) const {
  Check check{&constraint, {}, nullptr};
  std::uint64_t combinations = 1;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    const auto& reads = constraint.reads;
    if (!std::count(reads.begin(), reads.end(), axes_[axis].name)) continue;
    check.reads.push_back({axis, combinations});
    combinations *= axes_[axis].values.size();
  }
  check.known = std::make_shared<KnownAnswers>(combinations);
  return check;
}

double TemplateSpace::raw_size() const {
  return std::accumulate(axes_.begin(), axes_.end(), 1.0, [](double product, const Axis& axis) {
    return product * static_cast<double>(axis.values.size());
  });
}

/// Cached: to evaluate a constraint takes about a hundred times as long as a look-up, since it
/// constructs and decodes a configuration.
bool TemplateSpace::holds(const Check& check, const Point& point) const {
  std::uint64_t combination = 0;
  for (const Check::Read& read : check.reads) combination += point[read.axis] * read.factor;
  if (const std::optional<bool> known = check.known->find(combination)) return *known;
  Configuration configuration = first_;
  for (const Check::Read& read : check.reads)
    configuration.set(axes_[read.axis].name, axes_[read.axis].values[point[read.axis]]);
  const bool answer = check.constraint->holds({problem_, configuration, device_});
  check.known->add(combination, answer);
  return answer;
}

bool TemplateSpace::hold(const Checks& checks, const Point& point) const {
  return std::all_of(checks.begin(), checks.end(),
                     [&](const Check& check) { return holds(check, point); });
}

bool TemplateSpace::valid(const Point& point) const {
  return hold(always_, point) &&
         std::all_of(checks_.begin(), checks_.end(),
                     [&](const Checks& checks) { return hold(checks, point); });
}

const TemplateSpace::Check* TemplateSpace::refusal(const Point& point) const {
  for (const Check& check : in_order_)
    if (!holds(check, point)) return &check;
  return nullptr;
}

/// Empty when a parameter is missing, unknown, or has a value that is not in this space.
std::optional<TemplateSpace::Point> TemplateSpace::point_of(
    const Configuration& configuration) const {
  if (configuration.values().size() < axes_.size()) {  // stored by an earlier version
    Configuration whole = with_added(*kernel_, configuration);
    if (whole.values().size() == axes_.size()) return point_of(whole);
  }
  const auto& values = configuration.values();
  if (values.size() != axes_.size()) return std::nullopt;
  Point point(axes_.size());
  for (std::size_t i = 0; i < values.size(); ++i) {  // both are sorted by name
    const Axis& axis = axes_[by_name_[i]];
    const auto found = std::find(axis.values.begin(), axis.values.end(), values[i].second);
    if (values[i].first != axis.name || found == axis.values.end()) return std::nullopt;
    point[by_name_[i]] = static_cast<std::uint16_t>(found - axis.values.begin());
  }
  return point;
}

Configuration TemplateSpace::configuration_of(const Point& point) const {
  Configuration configuration = first_;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    configuration.set(axes_[axis].name, axes_[axis].values[point[axis]]);
  return configuration;
}

bool TemplateSpace::contains(const Configuration& configuration) const {
  const std::optional<Point> point = point_of(configuration);
  return point && valid(*point);
}

bool TemplateSpace::allows(const Configuration& configuration) const {
  const std::optional<Point> point = point_of(configuration);
  return point && std::all_of(in_order_.begin(), in_order_.end(), [&](const Check& check) {
           return check.constraint->for_search_only || holds(check, *point);
         });
}

bool TemplateSpace::for_each(const std::function<bool(const Configuration&)>& visit) const {
  if (kernel_->listed)
    return std::all_of(kernel_->listed->begin(), kernel_->listed->end(),
                       [&](const Configuration& c) { return !contains(c) || visit(c); });
  Point point(axes_.size());
  return !hold(always_, point) || visit_from(0, point, visit);
}

bool TemplateSpace::visit_from(std::size_t depth, Point& point,
                               const std::function<bool(const Configuration&)>& visit) const {
  if (depth == axes_.size()) return visit(configuration_of(point));
  for (std::size_t i = 0; i < axes_[depth].values.size(); ++i) {
    point[depth] = static_cast<std::uint16_t>(i);
    if (hold(checks_[depth], point) && !visit_from(depth + 1, point, visit)) return false;
  }
  return true;
}

/// Rejection sampling gives every valid configuration the same probability. Where fewer than about
/// one raw draw in a thousand is valid, it takes too long: values are then drawn axis by axis among
/// those not refused yet, with backtracking. That is biased: the first axes are nearly uniform,
/// instead of weighted by the number of their completions. The search then spreads wider over tile
/// shapes, which does it no harm.
std::optional<Configuration> TemplateSpace::random(std::mt19937_64& generator, int attempts) const {
  if (kernel_->listed) return random_listed(generator, attempts);
  const int shorter = *shorter_;
  Point point(axes_.size());
  if (shorter == kEmpty || !hold(always_, point)) return std::nullopt;
  attempts >>= shorter;
  const auto found = [&] {
    if (shorter > 0) *shorter_ = 0;
    return configuration_of(point);
  };
  for (int i = 0; i < std::min(attempts, kPlainDraws); ++i)
    if (draw(generator, point)) return found();
  // Early values may leave almost no valid completion: a restart is then quicker than an exhaustive
  // search. The growing limit makes the search exhaustive in the end.
  int left = attempts - kPlainDraws;
  for (int limit = kFirstDescent; left > 0; limit += limit / 4) {
    int steps = std::min(limit, left);
    left -= steps;
    if (descend(0, generator, point, steps)) return found();
    if (steps > 0) {  // the search was exhaustive: no configuration is valid
      *shorter_ = kEmpty;
      return std::nullopt;
    }
  }
  *shorter_ = std::min(shorter + 2, kEmpty - 1);
  return std::nullopt;
}

/// By rejection, since a subspace may leave few of the list.
std::optional<Configuration> TemplateSpace::random_listed(std::mt19937_64& generator,
                                                          int attempts) const {
  const std::vector<Configuration>& listed = *kernel_->listed;
  for (int i = 0; i < attempts && !listed.empty(); ++i)
    if (const Configuration& one = listed[random_index(generator, listed.size())]; contains(one))
      return one;
  return std::nullopt;
}

bool TemplateSpace::draw(std::mt19937_64& generator, Point& point) const {
  for (std::size_t depth = 0; depth < axes_.size(); ++depth) {
    point[depth] = static_cast<std::uint16_t>(random_index(generator, axes_[depth].values.size()));
    if (!hold(checks_[depth], point)) return false;
  }
  return true;
}

bool TemplateSpace::descend(std::size_t depth, std::mt19937_64& generator, Point& point,
                            int& steps) const {
  if (depth == axes_.size()) return true;
  std::vector<std::uint16_t> left(axes_[depth].values.size());
  std::iota(left.begin(), left.end(), std::uint16_t{0});
  while (!left.empty() && steps-- > 0) {
    const std::size_t i = random_index(generator, left.size());
    point[depth] = left[i];
    left[i] = left.back();
    left.pop_back();
    if (hold(checks_[depth], point) && descend(depth + 1, generator, point, steps)) return true;
  }
  return false;
}

PointCount TemplateSpace::count(const CountLimits& limits) const {
  std::vector<std::size_t> sizes;
  for (const Axis& axis : axes_) sizes.push_back(axis.values.size());
  std::vector<PointCondition> conditions;
  for (const Check& check : in_order_) {
    PointCondition condition;
    for (const Check::Read& read : check.reads) condition.reads.push_back(read.axis);
    condition.holds = [this, &check](const Point& point) { return holds(check, point); };
    conditions.push_back(std::move(condition));
  }
  return count_points(sizes, conditions, limits);
}

const Constraint* TemplateSpace::refusal_of_draw(std::mt19937_64& generator) const {
  Point point;
  for (const Axis& axis : axes_)
    point.push_back(static_cast<std::uint16_t>(random_index(generator, axis.values.size())));
  const Check* refused = refusal(point);
  return refused ? refused->constraint : nullptr;
}

std::vector<Configuration> TemplateSpace::neighbours(const Configuration& from) const {
  const std::optional<Point> centre = point_of(from);
  if (!centre) return {};
  struct Move {
    int distance;
    std::size_t axis;
    std::uint16_t value;
  };
  std::vector<Move> moves;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    for (const auto& [distance, value] : by_distance(axes_[axis].values.size(), (*centre)[axis]))
      moves.push_back({distance, axis, value});
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& x, const Move& y) { return x.distance < y.distance; });

  std::vector<Configuration> result;
  std::vector<Point> pairs;
  for (const Move& move : moves) {
    Point changed = *centre;
    changed[move.axis] = move.value;
    if (valid(changed)) {
      result.push_back(configuration_of(changed));
    } else if (auto pair = repaired(changed, move.axis)) {
      pairs.push_back(std::move(*pair));
    }
  }
  std::set<Point> known;  // two changes may each need the other, which gives the same pair
  for (const Point& pair : pairs)
    if (known.insert(pair).second) result.push_back(configuration_of(pair));
  return result;
}

/// Parameters are coupled (a tile and its threads, a vector width and a tile): a change that is
/// refused is combined with the nearest valid change of one other parameter that the refusing
/// constraint reads.
std::optional<TemplateSpace::Point> TemplateSpace::repaired(const Point& broken,
                                                            std::size_t axis) const {
  std::optional<Point> nearest;
  int best = 0;
  const Check& refused = *refusal(broken);
  for (const Check::Read& read : refused.reads) {
    if (read.axis == axis) continue;
    Point changed = broken;
    for (const auto& [distance, value] :
         by_distance(axes_[read.axis].values.size(), broken[read.axis])) {
      if (nearest && distance >= best) break;
      changed[read.axis] = value;
      if (!holds(refused, changed) || !valid(changed)) continue;
      nearest = changed;
      best = distance;
    }
  }
  return nearest;
}

}  // namespace tilewise
