#include "templates/space/space_count.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>

namespace tilewise {
namespace {

using Axes = std::vector<std::size_t>;
using Conditions = std::vector<const PointCondition*>;

bool has_axis(const Axes& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// The current point. Its axes have only the values that the conditions on a single axis allow.
class Cursor {
 public:
  Cursor(const std::vector<std::size_t>& sizes, const std::vector<PointCondition>& conditions)
      : allowed_(sizes.size()), place_(sizes.size(), 0), point_(sizes.size(), 0) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      for (std::size_t value = 0; value < sizes[axis]; ++value) {
        point_[axis] = static_cast<std::uint16_t>(value);
        const auto allows = [&](const PointCondition& condition) {
          return condition.reads != Axes{axis} || condition.holds(point_);
        };
        if (std::all_of(conditions.begin(), conditions.end(), allows))
          allowed_[axis].push_back(point_[axis]);
      }
  }
  std::size_t axes() const { return allowed_.size(); }
  std::size_t size(std::size_t axis) const { return allowed_[axis].size(); }
  double combinations(const Axes& axes) const {
    double product = 1;
    for (const std::size_t axis : axes) product *= static_cast<double>(size(axis));
    return product;
  }
  void set(std::size_t axis, std::size_t place) {
    place_[axis] = place;
    point_[axis] = allowed_[axis][place];
  }
  std::size_t place(std::size_t axis) const { return place_[axis]; }
  const SpacePoint& point() const { return point_; }

 private:
  std::vector<SpacePoint> allowed_;
  std::vector<std::size_t> place_;  // by axis: the index among its allowed values
  SpacePoint point_;
};

/// A number for each combination of the values of some axes: a sum, or 1 or 0 for whether a
/// condition holds. A condition is evaluated when an entry is first read.
class Table {
 public:
  Table(Axes axes, const Cursor& cursor, const PointCondition* condition = nullptr)
      : axes_(std::move(axes)), condition_(condition) {
    std::size_t entries = 1;
    for (const std::size_t axis : axes_) {
      factors_.push_back(entries);
      entries *= cursor.size(axis);
    }
    condition_ ? answers_.resize(entries, kUnknown) : sums_.resize(entries, 0);
  }
  const Axes& axes() const { return axes_; }
  double at(const Cursor& cursor) {
    const std::size_t entry = entry_of(cursor);
    if (!condition_) return sums_[entry];
    if (answers_[entry] == kUnknown) answers_[entry] = condition_->holds(cursor.point());
    return answers_[entry];
  }
  void add(const Cursor& cursor, double value) { sums_[entry_of(cursor)] += value; }

 private:
  static constexpr std::uint8_t kUnknown = 2;
  std::size_t entry_of(const Cursor& cursor) const {
    std::size_t entry = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) entry += cursor.place(axes_[i]) * factors_[i];
    return entry;
  }

  Axes axes_;
  std::vector<std::size_t> factors_;
  const PointCondition* condition_;
  std::vector<double> sums_;
  std::vector<std::uint8_t> answers_;
};

/// `axis`, then the other axes of the lists that contain it.
Axes joined(const std::vector<Axes>& lists, std::size_t axis) {
  Axes all{axis};
  for (const Axes& list : lists)
    if (has_axis(list, axis))
      for (const std::size_t other : list)
        if (!has_axis(all, other)) all.push_back(other);
  return all;
}

/// The axes in the order in which they are summed out.
struct Order {
  Axes axes;
  std::size_t inner = 0;  ///< the first `inner` axes are read by no omitted condition
  double largest = 0;     ///< combinations of the largest sum
};

/// First the inner axes, then the others; of each, next the axis whose sum runs over the fewest
/// combinations.
Order order_of(const Conditions& kept, const Conditions& omitted, const Cursor& cursor) {
  std::vector<Axes> lists;
  for (const PointCondition* condition : kept) lists.push_back(condition->reads);
  std::set<std::size_t> inner, outer;
  for (std::size_t axis = 0; axis < cursor.axes(); ++axis) {
    const auto reads = [axis](const auto* condition) { return has_axis(condition->reads, axis); };
    (std::any_of(omitted.begin(), omitted.end(), reads) ? outer : inner).insert(axis);
  }
  Order order;
  order.inner = inner.size();
  for (std::set<std::size_t>* left : {&inner, &outer})
    while (!left->empty()) {
      Axes next;
      for (const std::size_t axis : *left)
        if (Axes all = joined(lists, axis);
            next.empty() || cursor.combinations(all) < cursor.combinations(next))
          next = std::move(all);
      const std::size_t axis = next.front();
      order.axes.push_back(axis);
      order.largest = std::max(order.largest, cursor.combinations(next));
      left->erase(axis);
      std::erase_if(lists, [axis](const Axes& list) { return has_axis(list, axis); });
      next.erase(next.begin());
      lists.push_back(std::move(next));
    }
  return order;
}

/// Counts the points that meet the conditions kept. The combinations of outer axes of these points
/// can then be drawn or listed.
class Elimination {
 public:
  Elimination(const Conditions& conditions, const Order& order, Cursor& cursor) : cursor_(cursor) {
    std::vector<Table*> left;
    for (const PointCondition* condition : conditions)
      left.push_back(add_table(Table(condition->reads, cursor_, condition)));
    for (std::size_t i = 0; i < order.axes.size(); ++i) {
      if (i == order.inner) outer_tables_ = left, outer_factor_ = points_;
      Table* sums = sum_out(order.axes[i], i >= order.inner, left);
      if (sums->axes().empty())
        points_ *= sums->at(cursor_);
      else
        left.push_back(sums);
    }
  }
  double points() const { return points_; }

  /// Sets the cursor's outer axes to those of a random point, uniform over the points. Requires
  /// points() > 0.
  void draw(std::mt19937_64& generator) {
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      std::vector<double> up_to;
      double sum = 0;
      for (std::size_t i = 0; i < cursor_.size(stage->axis); ++i) {
        cursor_.set(stage->axis, i);
        up_to.push_back(sum += weight(*stage));
      }
      // Rounding must not give the sum itself, which is past the last value.
      const double drawn = std::min(static_cast<double>(generator() >> 11) * 0x1p-53 * sum,
                                    std::nextafter(sum, 0.0));
      const auto chosen = std::upper_bound(up_to.begin(), up_to.end(), drawn);
      cursor_.set(stage->axis, static_cast<std::size_t>(chosen - up_to.begin()));
    }
  }

  /// Sets the cursor's outer axes to each combination that points have, and calls `visit` with the
  /// number of these points, until it returns false. Returns whether it never did.
  bool for_each(const std::function<bool(double)>& visit) {
    return visit_before(stages_.size(), visit);
  }

 private:
  /// One outer axis that was summed out.
  struct Stage {
    std::size_t axis;
    std::vector<Table*> tables;  // those that read the axis, smallest first
  };
  /// Axes in the order of setting, each with the tables that are multiplied once it is set.
  using Steps = std::vector<std::pair<std::size_t, std::vector<Table*>>>;

  Table* add_table(Table table) {
    tables_.push_back(std::make_unique<Table>(std::move(table)));
    return tables_.back().get();
  }

  /// Moves the tables that read the axis out of `left`. Returns the sum of their product.
  Table* sum_out(std::size_t axis, bool outer, std::vector<Table*>& left) {
    Stage stage{axis, {}};
    std::erase_if(left, [&](Table* table) {
      if (!has_axis(table->axes(), axis)) return false;
      stage.tables.push_back(table);
      return true;
    });
    std::stable_sort(stage.tables.begin(), stage.tables.end(), [&](Table* x, Table* y) {
      return cursor_.combinations(x->axes()) < cursor_.combinations(y->axes());
    });
    // The axis is set first, and small tables are multiplied early: most products become 0 soon.
    Steps steps{{axis, {}}};
    Axes all{axis};
    for (Table* table : stage.tables) {
      for (const std::size_t other : table->axes())
        if (!has_axis(all, other)) {
          all.push_back(other);
          steps.push_back({other, {}});
        }
      std::size_t last = 0;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (has_axis(table->axes(), all[i])) last = i;
      steps[last].second.push_back(table);
    }
    Table* sums = add_table(Table(Axes(all.begin() + 1, all.end()), cursor_));
    add_up(steps, 0, 1, *sums);
    if (outer) stages_.push_back(std::move(stage));
    return sums;
  }

  void add_up(const Steps& steps, std::size_t depth, double product, Table& sums) {
    if (depth == steps.size()) return sums.add(cursor_, product);
    const auto& [axis, tables] = steps[depth];
    for (std::size_t i = 0; i < cursor_.size(axis); ++i) {
      cursor_.set(axis, i);
      if (const double next = times(product, tables); next > 0)
        add_up(steps, depth + 1, next, sums);
    }
  }

  double times(double product, const std::vector<Table*>& tables) {
    for (Table* table : tables) {
      if (!(product > 0)) break;
      product *= table->at(cursor_);
    }
    return product;
  }

  /// The number of points that agree with the cursor on the stage's axis and on those summed out
  /// after it, up to a factor that is the same for every value of the axis.
  double weight(const Stage& stage) { return times(1, stage.tables); }

  bool visit_before(std::size_t stages, const std::function<bool(double)>& visit) {
    if (stages == 0) return visit(times(outer_factor_, outer_tables_));
    const Stage& stage = stages_[stages - 1];
    for (std::size_t i = 0; i < cursor_.size(stage.axis); ++i) {
      cursor_.set(stage.axis, i);
      if (weight(stage) > 0 && !visit_before(stages - 1, visit)) return false;
    }
    return true;
  }

  Cursor& cursor_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Stage> stages_;         // of outer axes, in the order of summing
  std::vector<Table*> outer_tables_;  // their product times outer_factor_ is the number of points
  double outer_factor_ = 1;
  double points_ = 1;
};

/// Moves conditions from `kept` to `omitted`, those that read the most combinations first, until
/// every sum is within the limit.
Order order_within(double limit, const Cursor& cursor, Conditions& kept, Conditions& omitted) {
  for (;;) {
    Order order = order_of(kept, omitted, cursor);
    if (order.largest <= limit || kept.empty()) return order;
    const auto widest = std::max_element(kept.begin(), kept.end(), [&](auto* x, auto* y) {
      return cursor.combinations(x->reads) < cursor.combinations(y->reads);
    });
    omitted.push_back(*widest);
    kept.erase(widest);
  }
}

}  // namespace

PointCount count_points(const std::vector<std::size_t>& sizes,
                        const std::vector<PointCondition>& conditions, const CountLimits& limits) {
  Cursor cursor(sizes, conditions);
  Conditions kept, omitted;
  for (const PointCondition& condition : conditions) {
    if (condition.reads.size() > 1) kept.push_back(&condition);
    if (condition.reads.empty() && !condition.holds(cursor.point())) return {};
  }
  const Order order = order_within(limits.combinations, cursor, kept, omitted);
  Elimination elimination(kept, order, cursor);
  PointCount count;
  if (omitted.empty() || !(elimination.points() > 0)) {
    count.points = elimination.points();
    return count;
  }
  const auto meets_omitted = [&] {
    return std::all_of(omitted.begin(), omitted.end(),
                       [&](auto* condition) { return condition->holds(cursor.point()); });
  };
  // A first pass without the conditions, which take far longer, finds whether the list is short.
  int listed = 0;
  if (elimination.for_each([&](double) { return ++listed <= limits.listed; })) {
    elimination.for_each([&](double points) {
      if (meets_omitted()) count.points += points;
      return true;
    });
    return count;
  }
  std::mt19937_64 generator(limits.seed);
  int met = 0;
  for (int i = 0; i < std::max(limits.draws, 1); ++i) {
    elimination.draw(generator);
    if (meets_omitted()) ++met;
  }
  const double draws = std::max(limits.draws, 1), share = (met + 1) / (draws + 2);
  count.points = elimination.points() * met / draws;
  count.standard_error = elimination.points() * std::sqrt(share * (1 - share) / draws);
  count.exact = false;
  return count;
}

}  // namespace tilewise
