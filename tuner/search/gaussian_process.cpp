#include "tuner/search/gaussian_process.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewise {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Indices of parameters.
constexpr Index kMatern = 0, kLinear = 1, kNoise = 2, kLengths = 3;
// Means and standard deviations of the prior for the parameters' logarithms.
constexpr double kMaternMiddle = 0, kMaternWidth = 1;
constexpr double kLinearMiddle = -1, kLinearWidth = 1.5;
constexpr double kNoiseMiddle = -7, kNoiseWidth = 1.5;
constexpr double kLengthWidth = 1;
// Length per root of the number of groups, so that two points differ by about 1 in total.
constexpr double kLengthMiddle = 0.5;
// The least noise's variance; it keeps the covariance positive definite.
constexpr double kLeastNoise = 1e-6;

// Rprop: the first step, its bounds, its factors.
constexpr double kFirstStep = 0.2, kLeastStep = 1e-4, kMostStep = 0.8;
constexpr double kFaster = 1.2, kSlower = 0.5;

double noise_of(const VectorXd& parameters) { return std::exp(parameters[kNoise]) + kLeastNoise; }

MatrixXd squared_distances(const MatrixXd& x, const MatrixXd& y) {
  MatrixXd result = -2 * x * y.transpose();
  result.colwise() += x.rowwise().squaredNorm();
  result.rowwise() += y.rowwise().squaredNorm().transpose();
  return result.cwiseMax(0);
}

}  // namespace

struct GaussianProcess::Slope {
  double likelihood = 0;  // logarithm of the likelihood
  VectorXd of_parameters;
};

GaussianProcess::GaussianProcess(std::vector<int> groups) : groups_(std::move(groups)) {
  const Index lengths = groups_.empty() ? 0 : 1 + *std::max_element(groups_.begin(), groups_.end());
  const double root = std::sqrt(std::max(1.0, static_cast<double>(lengths)));
  middle_ = VectorXd::Constant(kLengths + lengths, std::log(kLengthMiddle * root));
  width_ = VectorXd::Constant(kLengths + lengths, kLengthWidth);
  middle_.head(kLengths) << kMaternMiddle, kLinearMiddle, kNoiseMiddle;
  width_.head(kLengths) << kMaternWidth, kLinearWidth, kNoiseWidth;
  parameters_ = middle_;
}

/// Points with each column divided by its length.
MatrixXd GaussianProcess::scaled(const MatrixXd& points) const {
  MatrixXd result = points;
  for (Index column = 0; column < points.cols(); ++column)
    result.col(column) *=
        std::exp(-parameters_[kLengths + groups_[static_cast<std::size_t>(column)]]);
  return result;
}

MatrixXd GaussianProcess::covariance(const MatrixXd& x, const MatrixXd& y) const {
  const MatrixXd root5r = (5 * squared_distances(scaled(x), scaled(y))).cwiseSqrt();
  const double matern = std::exp(parameters_[kMatern]), linear = std::exp(parameters_[kLinear]);
  MatrixXd result = linear * x * y.transpose();
  result.array() +=
      matern * (1 + root5r.array() + root5r.array().square() / 3) * (-root5r.array()).exp();
  return result;
}

/// The logarithm of likelihood times prior, and its derivatives.
GaussianProcess::Slope GaussianProcess::slope(const MatrixXd& points,
                                              const VectorXd& values) const {
  const Index count = points.rows();
  const MatrixXd scaled_points = scaled(points);
  const MatrixXd root5r = (5 * squared_distances(scaled_points, scaled_points)).cwiseSqrt();
  const MatrixXd decay = (-root5r.array()).exp();
  const double matern_variance = std::exp(parameters_[kMatern]);
  const MatrixXd matern =
      matern_variance * (1 + root5r.array() + root5r.array().square() / 3) * decay.array();
  const MatrixXd linear = std::exp(parameters_[kLinear]) * points * points.transpose();
  MatrixXd all = matern + linear;
  all.diagonal().array() += noise_of(parameters_);
  const Eigen::LLT<MatrixXd> factor(all);
  const VectorXd weights = factor.solve(values);
  const VectorXd from_middle = (parameters_ - middle_).cwiseQuotient(width_);

  Slope result;
  const VectorXd diagonal = factor.matrixLLT().diagonal();
  result.likelihood =
      -0.5 * values.dot(weights) - diagonal.array().log().sum() - 0.5 * from_middle.squaredNorm();
  // d/dp = 0.5 trace((w w^T - K^-1) dK/dp).
  MatrixXd outer = weights * weights.transpose() - factor.solve(MatrixXd::Identity(count, count));
  result.of_parameters = -from_middle.cwiseQuotient(width_);
  result.of_parameters[kMatern] += 0.5 * outer.cwiseProduct(matern).sum();
  result.of_parameters[kLinear] += 0.5 * outer.cwiseProduct(linear).sum();
  result.of_parameters[kNoise] += 0.5 * std::exp(parameters_[kNoise]) * outer.trace();
  // dK/dlog(length) = (5/3) variance (1 + root5r) decay (difference / length)^2.
  outer.array() *= (5.0 / 3) * matern_variance * (1 + root5r.array()) * decay.array();
  const VectorXd sums = outer.rowwise().sum();
  const MatrixXd product = outer * scaled_points;
  for (Index column = 0; column < points.cols(); ++column) {
    const auto x = scaled_points.col(column);
    const double sum = 2 * (sums.dot(x.cwiseAbs2()) - x.dot(product.col(column)));
    result.of_parameters[kLengths + groups_[static_cast<std::size_t>(column)]] += 0.5 * sum;
  }
  return result;
}

void GaussianProcess::fit(const MatrixXd& points, const VectorXd& values, int steps) {
  VectorXd best = parameters_;
  double most = -std::numeric_limits<double>::infinity();
  VectorXd step = VectorXd::Constant(parameters_.size(), kFirstStep);
  VectorXd before = VectorXd::Zero(parameters_.size());
  for (int i = 0; i < steps; ++i) {
    Slope here = slope(points, values);
    if (!std::isfinite(here.likelihood)) break;
    if (here.likelihood > most) {
      most = here.likelihood;
      best = parameters_;
    }
    for (Index p = 0; p < parameters_.size(); ++p) {
      const double turn = here.of_parameters[p] * before[p];
      step[p] = std::clamp(step[p] * (turn > 0   ? kFaster
                                      : turn < 0 ? kSlower
                                                 : 1),
                           kLeastStep, kMostStep);
      if (turn < 0) here.of_parameters[p] = 0;
      parameters_[p] += here.of_parameters[p] > 0   ? step[p]
                        : here.of_parameters[p] < 0 ? -step[p]
                                                    : 0;
      before[p] = here.of_parameters[p];
    }
  }
  parameters_ = best;
}

void GaussianProcess::condition(const MatrixXd& points, const VectorXd& values,
                                const MatrixXd& under_way) {
  const Index count = points.rows();
  known_.resize(count + under_way.rows(), static_cast<Index>(groups_.size()));
  known_.topRows(count) = points;
  known_.bottomRows(under_way.rows()) = under_way;
  weights_ = VectorXd::Zero(count);
  factor_.resize(0, 0);
  if (known_.rows() == 0) return;
  MatrixXd all = covariance(known_, known_);
  all.diagonal().array() += noise_of(parameters_);
  factor_ = all.llt().matrixL();
  // The factor for the points alone is the upper left block of the whole factor.
  const auto block = factor_.topLeftCorner(count, count).triangularView<Eigen::Lower>();
  weights_ = block.transpose().solve(block.solve(values));
}

VectorXd GaussianProcess::mean(const MatrixXd& points) const {
  if (weights_.size() == 0) return VectorXd::Zero(points.rows());
  return covariance(points, known_.topRows(weights_.size())) * weights_;
}

GaussianProcess::Variances GaussianProcess::variances(const MatrixXd& points) const {
  Variances result{points, {}, {}};
  const double matern = std::exp(parameters_[kMatern]), linear = std::exp(parameters_[kLinear]);
  result.values = (matern + linear * points.rowwise().squaredNorm().array()).matrix();
  if (known_.rows() == 0 || points.rows() == 0) {  // Eigen cannot solve an empty system
    result.factors.resize(0, points.rows());
    return result;
  }
  result.factors = covariance(known_, points);
  factor_.triangularView<Eigen::Lower>().solveInPlace(result.factors);
  result.values -= result.factors.colwise().squaredNorm().transpose();
  result.values = result.values.cwiseMax(0);
  return result;
}

void GaussianProcess::choose(Variances& v, Index chosen) const {
  const VectorXd between = covariance(v.points, v.points.row(chosen)).col(0) -
                           v.factors.transpose() * v.factors.col(chosen);
  const VectorXd row = between / std::sqrt(v.values[chosen] + noise_of(parameters_));
  v.factors.conservativeResize(v.factors.rows() + 1, Eigen::NoChange);
  v.factors.bottomRows(1) = row.transpose();
  v.values = (v.values - row.cwiseAbs2()).cwiseMax(0);
}

}  // namespace tilewise
