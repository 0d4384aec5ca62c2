#include "tuner/search/feature_columns.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tilewise {
namespace {

/// 3 for 8, 24 and 40; 0 for 0.
int factors_of_2(int value) {
  return value > 0 ? std::countr_zero(static_cast<unsigned>(value)) : 0;
}

double logarithm_of(int value, double shift) { return std::log2(std::max(value, 0) + shift); }

}  // namespace

FeatureColumns::FeatureColumns(const KernelTemplate& kernel) {
  int group = 0;
  for (const Parameter& parameter : kernel.parameters) {
    std::vector<int> values = parameter.values;
    if (values.size() < 2) continue;
    std::sort(values.begin(), values.end());
    Axis axis{.name = parameter.name};
    if (!parameter.labels.empty() && values.size() > 2) {
      groups_.insert(groups_.end(), values.size(), group++);
      axis.labels = std::move(values);
    } else {
      axis.logarithmic = values.front() >= 0;
      axis.shift = values.front() == 0 ? 1 : 0;
      axis.least = axis.logarithmic ? logarithm_of(values.front(), axis.shift) : values.front();
      axis.range =
          (axis.logarithmic ? logarithm_of(values.back(), axis.shift) : values.back()) - axis.least;
      groups_.push_back(group++);
      const bool powers = std::all_of(values.begin(), values.end(),
                                      [](int value) { return (value & (value - 1)) == 0; });
      if (axis.logarithmic && !powers)
        for (const int value : values) axis.factors = std::max(axis.factors, factors_of_2(value));
      if (axis.factors > 0) groups_.push_back(group++);
    }
    axes_.push_back(std::move(axis));
  }
}

void FeatureColumns::write(const Configuration& configuration, double* to) const {
  constexpr double kHalfRoot = 0.70710678118654752;  // makes the distance of two labels 1
  for (const Axis& axis : axes_) {
    const int* found = configuration.find(axis.name);
    for (const int label : axis.labels) *to++ = found && *found == label ? kHalfRoot : 0;
    if (!axis.labels.empty()) continue;
    const double position = !found             ? 0
                            : axis.logarithmic ? logarithm_of(*found, axis.shift)
                                               : *found;
    *to++ = found ? (position - axis.least) / axis.range - 0.5 : 0;
    if (axis.factors > 0)
      *to++ = found ? static_cast<double>(factors_of_2(*found)) / axis.factors - 0.5 : 0;
  }
}

}  // namespace tilewise
