#pragma once
#include <string>
#include <vector>

#include "templates/kernel_template.hpp"

namespace tilewise {

/// A template's configurations as points. Each parameter with at least two values has one or
/// several columns with a range of 1. A number has its logarithm to base 2 (of value + 1 where a
/// value is 0), and its count of factors 2 where not all are powers of two. Three or more labels
/// have a column each. The order of the values has no effect.
class FeatureColumns {
 public:
  explicit FeatureColumns(const KernelTemplate& kernel);

  std::size_t columns() const { return groups_.size(); }
  /// The number of each column's quantity, ascending from 0. Columns for labels of one parameter
  /// have the same number.
  const std::vector<int>& groups() const { return groups_; }
  /// Writes columns() numbers. A parameter that the configuration lacks counts as 0.
  void write(const Configuration& configuration, double* to) const;

 private:
  struct Axis {
    std::string name;
    std::vector<int> labels = {};  ///< if not empty, a column for each of these values
    bool logarithmic = true;
    double shift = 0;  ///< added before the logarithm
    double least = 0, range = 1;
    int factors = 0;  ///< if not 0, a second column: a value's count of factors 2 over this number
  };
  std::vector<Axis> axes_;
  std::vector<int> groups_;
};

}  // namespace tilewise
