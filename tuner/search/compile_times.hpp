#pragma once
#include <Eigen/Core>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/search/feature_columns.hpp"

namespace tilewise {

/// Predicts the compile time of a candidate's kernels from the compiles of this search. Each
/// template has a ridge regression of the logarithm of the seconds on the columns of its
/// parameters. Not thread-safe.
class CompileTimes {
 public:
  explicit CompileTimes(const std::vector<const KernelTemplate*>& templates);

  void observe(const Candidate& candidate, double seconds);
  /// Seconds. A template without compiles has the mean of all. Empty before the first compile.
  std::optional<double> expected(const Candidate& candidate) const;

 private:
  struct Kernel {
    explicit Kernel(const KernelTemplate& kernel);
    Eigen::VectorXd point(const Candidate& candidate) const;

    FeatureColumns columns;
    double count = 0, sum = 0;  // logarithms of seconds
    Eigen::VectorXd points;     // their sum
    Eigen::VectorXd products;   // sum of point times logarithm
    Eigen::MatrixXd squares;    // sum of point times point
    mutable Eigen::VectorXd slope;
    mutable bool fitted = false;
  };
  static void fit(const Kernel& kernel);

  std::map<std::string, Kernel> kernels_;  // by template
  double count_ = 0, sum_ = 0;
};

}  // namespace tilewise
