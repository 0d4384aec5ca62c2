#pragma once
#include <string>
#include <vector>

#include "templates/kernel_template.hpp"

namespace tilewise {

/// A template's configurations as points: a column, or several, for each parameter with two values
/// or more, of a range of 1. Numbers count by their logarithm to base 2 (of value + 1 where one is
/// 0), and by their factors 2 where not all are powers of two; labels of three or more values by a
/// column for each. The order of the values is without effect.
class FeatureColumns {
 public:
  explicit FeatureColumns(const KernelTemplate& kernel);

  std::size_t columns() const { return groups_.size(); }
  /// Of each column, the number of its quantity, ascending from 0. Columns of labels of one
  /// parameter have the same.
  const std::vector<int>& groups() const { return groups_; }
  /// Writes columns() numbers. A parameter that the configuration lacks counts as 0.
  void write(const Configuration& configuration, double* to) const;

 private:
  struct Axis {
    std::string name;
    std::vector<int> labels = {};  ///< not empty: a column for each of these values
    bool logarithmic = true;
    double shift = 0;  ///< added before the logarithm
    double least = 0, range = 1;
    int factors = 0;  ///< not 0: a second column for the factors 2 of a value, over this number
  };
  std::vector<Axis> axes_;
  std::vector<int> groups_;
};

}  // namespace tilewise
