#include "templates/template_space.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

// Raw draws before a space counts as sparse: well below a millisecond.
constexpr int kPlainDraws = 200;

bool contains_value(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Values other than `present`, nearest in the list first (below before above).
std::vector<std::pair<int, int>> by_distance(const std::vector<int>& values, int present) {
  const auto at = std::find(values.begin(), values.end(), present) - values.begin();
  std::vector<std::pair<int, int>> result;  // distance, value
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != present)
      result.emplace_back(std::abs(static_cast<int>(i) - static_cast<int>(at)), values[i]);
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
    axes.push_back(std::move(axis));
  }
  order_axes(std::move(axes));
}

/// Again and again the constraint that has the fewest combinations left to set comes next, so that
/// it refuses as early as it can. Parameters that no constraint reads come last.
void TemplateSpace::order_axes(std::vector<Axis> axes) {
  std::vector<const Constraint*> waiting;
  for (const Constraint& constraint : kernel_->constraints) waiting.push_back(&constraint);
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
    // Where every axis it reads was placed before, it may belong to an earlier axis than the last.
    std::size_t last = 0;
    for (std::size_t depth = 0; depth < axes_.size(); ++depth)
      if (std::count((*next)->reads.begin(), (*next)->reads.end(), axes_[depth].name)) last = depth;
    ((*next)->reads.empty() ? always_ : checks_[last]).push_back(*next);
    waiting.erase(next);
  }
  while (!axes.empty()) place(std::string(axes.front().name));
}

double TemplateSpace::raw_size() const {
  return std::accumulate(axes_.begin(), axes_.end(), 1.0, [](double product, const Axis& axis) {
    return product * static_cast<double>(axis.values.size());
  });
}

bool TemplateSpace::hold(const Checks& checks, const Configuration& configuration) const {
  return std::all_of(checks.begin(), checks.end(), [&](const Constraint* constraint) {
    return constraint->holds({problem_, configuration, device_});
  });
}

const Constraint* TemplateSpace::refusal(const Configuration& configuration) const {
  for (const Constraint& constraint : kernel_->constraints)
    if (!constraint.holds({problem_, configuration, device_})) return &constraint;
  return nullptr;
}

bool TemplateSpace::has_values(const Configuration& configuration) const {
  return configuration.values().size() == axes_.size() &&
         std::all_of(axes_.begin(), axes_.end(), [&](const Axis& axis) {
           const int* value = configuration.find(axis.name);
           return value && contains_value(axis.values, *value);
         });
}

bool TemplateSpace::contains(const Configuration& configuration) const {
  return has_values(configuration) && refusal(configuration) == nullptr;
}

bool TemplateSpace::allows(const Configuration& configuration) const {
  const auto& all = kernel_->constraints;
  return has_values(configuration) && std::all_of(all.begin(), all.end(), [&](const Constraint& c) {
           return c.for_search_only || c.holds({problem_, configuration, device_});
         });
}

bool TemplateSpace::for_each(const std::function<bool(const Configuration&)>& visit) const {
  Configuration configuration = first_;
  return !hold(always_, configuration) || visit_from(0, configuration, visit);
}

bool TemplateSpace::visit_from(std::size_t depth, Configuration& configuration,
                               const std::function<bool(const Configuration&)>& visit) const {
  if (depth == axes_.size()) return visit(configuration);
  for (int value : axes_[depth].values) {
    configuration.set(axes_[depth].name, value);
    if (hold(checks_[depth], configuration) && !visit_from(depth + 1, configuration, visit))
      return false;
  }
  return true;
}

/// Rejection with early out gives every valid configuration the same chance. Where fewer than one
/// raw draw in some thousand is valid, it would take too long: then values are drawn axis by axis
/// among those not refused yet, going back at dead ends. That is biased towards configurations that
/// have few others beside them (the first axes are nearly uniform, instead of weighted by how many
/// completions they have), which does a search no harm: it spreads wider over tile shapes.
std::optional<Configuration> TemplateSpace::random(std::mt19937_64& generator, int attempts) const {
  Configuration configuration = first_;
  if (!hold(always_, configuration)) return std::nullopt;
  for (int i = 0; i < std::min(attempts, kPlainDraws); ++i)
    if (draw(generator, configuration)) return configuration;
  int steps = attempts - kPlainDraws;
  if (steps > 0 && descend(0, generator, configuration, steps)) return configuration;
  return std::nullopt;
}

bool TemplateSpace::draw(std::mt19937_64& generator, Configuration& configuration) const {
  for (std::size_t depth = 0; depth < axes_.size(); ++depth) {
    const Axis& axis = axes_[depth];
    configuration.set(axis.name, axis.values[random_index(generator, axis.values.size())]);
    if (!hold(checks_[depth], configuration)) return false;
  }
  return true;
}

bool TemplateSpace::descend(std::size_t depth, std::mt19937_64& generator,
                            Configuration& configuration, int& steps) const {
  if (depth == axes_.size()) return true;
  std::vector<int> left = axes_[depth].values;
  while (!left.empty() && steps-- > 0) {
    const std::size_t i = random_index(generator, left.size());
    configuration.set(axes_[depth].name, left[i]);
    left[i] = left.back();
    left.pop_back();
    if (hold(checks_[depth], configuration) && descend(depth + 1, generator, configuration, steps))
      return true;
  }
  return false;
}

const Constraint* TemplateSpace::refusal_of_draw(std::mt19937_64& generator) const {
  Configuration configuration = first_;
  for (const Axis& axis : axes_)
    configuration.set(axis.name, axis.values[random_index(generator, axis.values.size())]);
  return refusal(configuration);
}

std::vector<Configuration> TemplateSpace::neighbours(const Configuration& from) const {
  struct Move {
    int distance;
    const Axis* axis;
    int value;
  };
  std::vector<Move> moves;
  for (const Axis& axis : axes_)
    for (const auto& [distance, value] : by_distance(axis.values, from.at(axis.name)))
      moves.push_back({distance, &axis, value});
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& x, const Move& y) { return x.distance < y.distance; });

  std::vector<Configuration> result, pairs;
  for (const Move& move : moves) {
    Configuration changed = from;
    changed.set(move.axis->name, move.value);
    if (contains(changed)) {
      result.push_back(std::move(changed));
    } else if (auto pair = repaired(changed, *move.axis)) {
      pairs.push_back(std::move(*pair));
    }
  }
  std::set<Configuration> known;  // two changes may need each other
  for (Configuration& pair : pairs)
    if (known.insert(pair).second) result.push_back(std::move(pair));
  return result;
}

/// Parameters are coupled (a tile and its threads, a vector width and a tile): a change that is
/// refused alone is tried together with the nearest change of one other parameter that the refusal
/// depends on.
std::optional<Configuration> TemplateSpace::repaired(const Configuration& broken,
                                                     const Axis& axis) const {
  const Constraint* refused = refusal(broken);
  if (!refused) return std::nullopt;  // another parameter has a value that this space lacks
  std::optional<Configuration> nearest;
  int best = 0;
  for (const Axis& other : axes_) {
    const auto& reads = refused->reads;
    if (other.name == axis.name || !std::count(reads.begin(), reads.end(), other.name)) continue;
    Configuration changed = broken;
    for (const auto& [distance, value] : by_distance(other.values, broken.at(other.name))) {
      if (nearest && distance >= best) break;
      changed.set(other.name, value);
      if (!contains(changed)) continue;
      nearest = changed;
      best = distance;
    }
  }
  return nearest;
}

}  // namespace tilewise
