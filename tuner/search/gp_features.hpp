#pragma once
#include <Eigen/Core>
#include <map>
#include <optional>
#include <vector>

#include "tuner/search/feature_columns.hpp"
#include "tuner/search/gaussian_process.hpp"
#include "tuner/search/strategy.hpp"

namespace tilewise {

/// The results of one template's candidates, and a Gaussian process's expectation for the others.
/// The process learns the logarithm of the measured time over the predicted one; without a
/// prediction, the logarithm of the time. Differences among slow candidates count less: a logarithm
/// d above that of the best time counts as s log(1 + d / s). Not thread-safe.
class GpFeatures {
 public:
  struct Point {
    Candidate candidate;
    Eigen::RowVectorXd columns;
    double prior = 0;  ///< the logarithm of the predicted microseconds; 0: none
  };

  GpFeatures(const KernelTemplate& kernel, const Predict& predict);

  const KernelTemplate& kernel() const { return *kernel_; }
  Point point(Candidate candidate) const;

  /// Adds a result. Without `microseconds` it is a failure, which counts as a slow result.
  void observe(const Candidate& candidate, std::optional<double> microseconds);
  void begin(const Candidate& candidate);  ///< marks it as under way, until end()
  void end(const Candidate& candidate);

  std::size_t known() const { return observations_.size(); }  ///< failures included
  std::optional<double> best() const { return best_; }        ///< microseconds
  /// Candidates with a time: the sum of the logarithms of measured over predicted time, and their
  /// number.
  double sum() const { return sum_; }
  double timed() const { return timed_; }

  /// Includes new results. `expected`: the mean logarithm of measured over predicted time where
  /// this template has no results. `best`: the logarithm of the least time of all templates.
  void refresh(double expected, double best);
  /// The expected logarithms of microseconds at the last refresh().
  Eigen::VectorXd means(const std::vector<const Point*>& points) const;
  /// Variances of points whose means are known.
  struct Uncertain {
    std::vector<const Point*> points;
    Eigen::VectorXd means;
    GaussianProcess::Variances variances;
  };
  Uncertain uncertain(std::vector<const Point*> points, Eigen::VectorXd means) const;
  /// The standard deviations of the logarithms of microseconds.
  Eigen::VectorXd deviations(const Uncertain& uncertain) const;
  /// Counts the point as under way, only in `uncertain`.
  void choose(Uncertain& uncertain, Eigen::Index chosen) const {
    process_.choose(uncertain.variances, chosen);
  }

 private:
  struct Observation {
    Eigen::RowVectorXd columns;
    double prior = 0;
    std::optional<double> time;  // logarithm of the time
  };
  /// Points with values of mean 0 and a variance of about 1.
  struct Learnt {
    Eigen::MatrixXd points;
    Eigen::VectorXd values;
  };
  std::vector<const Observation*> chosen(std::size_t most) const;
  Learnt learnt(std::size_t most);  ///< sets centre_ and scale_
  Eigen::Index columns() const {
    return static_cast<Eigen::Index>(features_.columns()) + (predict_ ? 1 : 0);
  }
  double from_prior(double prior) const;
  Eigen::MatrixXd matrix_of(const std::vector<const Point*>& points) const;

  const KernelTemplate* kernel_;
  Predict predict_;
  FeatureColumns features_;
  GaussianProcess process_;
  std::vector<Observation> observations_;
  std::map<Candidate, Eigen::RowVectorXd> under_way_;
  std::optional<double> best_;
  double sum_ = 0, timed_ = 0;
  std::size_t next_fit_ = 0;
  double least_ = 0;               // the logarithm of the best time
  double factor_ = 0;              // the mean logarithm of measured over predicted
  double centre_ = 0, scale_ = 1;  // of the values that the process learns
};

}  // namespace tilewise
