#pragma once
#include <Eigen/Core>
#include <vector>

namespace tilewise {

/// Regression by a Gaussian process (Rasmussen and Williams, 2006) with mean 0. The covariance is
/// a Matern 5/2 kernel with a length for each group of columns, plus a linear kernel, plus noise.
/// Rows are points, with columns of a range of about 1. Not thread-safe.
class GaussianProcess {
 public:
  /// `groups`: the number of each column's length, from 0.
  explicit GaussianProcess(std::vector<int> groups);

  /// Improves the hyperparameters by `steps` steps of Rprop towards the most likely ones, given the
  /// values and a prior. Values should have a variance of about 1. Then has the effect of
  /// condition().
  void fit(const Eigen::MatrixXd& points, const Eigen::VectorXd& values, int steps);

  /// Learns the values of points (possibly none) with the current hyperparameters. The points under
  /// way count as values equal to their mean: they only lower the variance.
  void condition(const Eigen::MatrixXd& points, const Eigen::VectorXd& values,
                 const Eigen::MatrixXd& under_way);

  Eigen::VectorXd mean(const Eigen::MatrixXd& points) const;

  /// Variances of points, lowered when points are chosen to be under way.
  struct Variances {
    Eigen::MatrixXd points;
    Eigen::MatrixXd factors;  ///< L^-1 k(known, points); one column per point
    Eigen::VectorXd values;
  };
  Variances variances(const Eigen::MatrixXd& points) const;
  /// Counts the point in row `chosen` as under way.
  void choose(Variances& variances, Eigen::Index chosen) const;

 private:
  struct Slope;
  Eigen::MatrixXd scaled(const Eigen::MatrixXd& points) const;
  Eigen::MatrixXd covariance(const Eigen::MatrixXd& x, const Eigen::MatrixXd& y) const;
  Slope slope(const Eigen::MatrixXd& points, const Eigen::VectorXd& values) const;

  std::vector<int> groups_;
  /// Logarithms: variance of the Matern kernel, of the linear kernel, of the noise; lengths.
  Eigen::VectorXd parameters_, middle_, width_;
  Eigen::MatrixXd known_;    // points, including those under way
  Eigen::MatrixXd factor_;   // L of the covariance of known_
  Eigen::VectorXd weights_;  // of the points' covariances in a mean
};

}  // namespace tilewise
