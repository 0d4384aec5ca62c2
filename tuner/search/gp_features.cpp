#include "tuner/search/gp_features.hpp"

#include <algorithm>
#include <cmath>

namespace tilewise {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// The most points that the process learns from, and the most for its hyperparameters. If there are
// more results, kFastestShare of the points are the fastest results; the others are spread evenly
// over the remaining ranks.
constexpr std::size_t kMostPoints = 256, kMostFitted = 160;
constexpr double kFastestShare = 0.6;
// The first fit of the hyperparameters has this many results, each later fit kFitGrowth times as
// many.
constexpr std::size_t kFirstFit = 8;
constexpr double kFitGrowth = 1.2;
constexpr int kFirstSteps = 40, kSteps = 15;
// The prior standard deviation of logarithms of times. With few results it counts as this many more
// results with that deviation.
constexpr double kScale = 0.4, kScaleWeight = 2;
// The template's mean counts as this many results with the mean of all templates.
constexpr double kCentreWeight = 1;
// Logarithms much further above the best time are compressed.
constexpr double kSoft = 1;
// A failure counts as the result at this rank among those with a time.
constexpr double kFailureRank = 0.75;

double compressed(double logarithm, double least) {
  const double above = logarithm - least;
  return above > 0 ? least + kSoft * std::log1p(above / kSoft) : logarithm;
}

}  // namespace

GpFeatures::GpFeatures(const KernelTemplate& kernel, const Predict& predict)
    : kernel_(&kernel),
      predict_(predict),
      features_(kernel),
      process_([&] {
        std::vector<int> groups = features_.groups();
        // The last column is the prediction, so that the process can learn to trust it less.
        if (predict) groups.push_back(groups.empty() ? 0 : groups.back() + 1);
        return groups;
      }()),
      next_fit_(kFirstFit) {}

GpFeatures::Point GpFeatures::point(Candidate candidate) const {
  Point result{std::move(candidate), {}, 0};
  result.columns.resize(columns());
  features_.write(result.candidate.configuration, result.columns.data());
  if (!predict_) return result;
  const double seconds = predict_(result.candidate);
  if (seconds > 0) result.prior = std::log(seconds * 1e6);
  result.columns[columns() - 1] = result.prior;
  return result;
}

void GpFeatures::observe(const Candidate& candidate, std::optional<double> microseconds) {
  end(candidate);
  Point made = point(candidate);
  Observation observation{std::move(made.columns), made.prior, std::nullopt};
  if (microseconds && *microseconds > 0) {
    observation.time = std::log(*microseconds);
    sum_ += *observation.time - observation.prior;
    ++timed_;
    if (!best_ || *microseconds < *best_) best_ = microseconds;
  }
  observations_.push_back(std::move(observation));
}

void GpFeatures::begin(const Candidate& candidate) {
  under_way_[candidate] = point(candidate).columns;
}

void GpFeatures::end(const Candidate& candidate) { under_way_.erase(candidate); }

/// At most `most` of the observations: by time, then failures.
std::vector<const GpFeatures::Observation*> GpFeatures::chosen(std::size_t most) const {
  std::vector<const Observation*> all;
  for (const Observation& each : observations_) all.push_back(&each);
  std::stable_sort(all.begin(), all.end(), [](const auto* x, const auto* y) {
    if (!x->time || !y->time) return x->time.has_value() && !y->time;
    return *x->time < *y->time;
  });
  if (all.size() <= most) return all;
  const auto fastest = static_cast<std::size_t>(kFastestShare * static_cast<double>(most));
  const std::size_t rest = all.size() - fastest, kept = most - fastest;
  for (std::size_t i = 0; i < kept; ++i) all[fastest + i] = all[fastest + i * rest / kept];
  all.resize(most);
  return all;
}

/// The expectation from a prediction alone.
double GpFeatures::from_prior(double prior) const { return compressed(prior + factor_, least_); }

GpFeatures::Learnt GpFeatures::learnt(std::size_t most) {
  const std::vector<const Observation*> rows =
      timed_ > 0 ? chosen(most) : std::vector<const Observation*>{};
  const auto timed = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const auto* row) { return row->time; }));
  const double failure =
      timed == 0
          ? 0
          : *rows[static_cast<std::size_t>(kFailureRank * static_cast<double>(timed - 1))]->time;
  const auto count = static_cast<Index>(rows.size());
  Learnt result{MatrixXd(count, columns()), VectorXd(count)};
  for (Index i = 0; i < count; ++i) {
    const Observation& row = *rows[static_cast<std::size_t>(i)];
    result.points.row(i) = row.columns;
    result.values[i] = compressed(row.time.value_or(failure), least_) - from_prior(row.prior);
  }
  const double weight = static_cast<double>(count);
  centre_ = result.values.sum() / (weight + kCentreWeight);
  result.values.array() -= centre_;
  scale_ = std::sqrt((result.values.squaredNorm() + kScaleWeight * kScale * kScale) /
                     (weight + kScaleWeight));
  result.values /= scale_;
  return result;
}

void GpFeatures::refresh(double expected, double best) {
  least_ = best;
  factor_ = (sum_ + kCentreWeight * expected) / (timed_ + kCentreWeight);
  if (known() >= next_fit_ && timed_ > 0) {
    const Learnt some = learnt(kMostFitted);
    process_.fit(some.points, some.values, next_fit_ == kFirstFit ? kFirstSteps : kSteps);
    next_fit_ =
        std::max(known() + 4, static_cast<std::size_t>(kFitGrowth * static_cast<double>(known())));
  }
  const Learnt all = learnt(kMostPoints);
  MatrixXd under_way(static_cast<Index>(under_way_.size()), columns());
  Index i = 0;
  for (const auto& [candidate, columns_of_it] : under_way_) under_way.row(i++) = columns_of_it;
  process_.condition(all.points, all.values, under_way);
}

MatrixXd GpFeatures::matrix_of(const std::vector<const Point*>& points) const {
  MatrixXd matrix(static_cast<Index>(points.size()), columns());
  for (Index i = 0; i < matrix.rows(); ++i)
    matrix.row(i) = points[static_cast<std::size_t>(i)]->columns;
  return matrix;
}

VectorXd GpFeatures::means(const std::vector<const Point*>& points) const {
  VectorXd result = process_.mean(matrix_of(points));
  for (Index i = 0; i < result.size(); ++i)
    result[i] =
        centre_ + scale_ * result[i] + from_prior(points[static_cast<std::size_t>(i)]->prior);
  return result;
}

GpFeatures::Uncertain GpFeatures::uncertain(std::vector<const Point*> points,
                                            VectorXd means) const {
  const MatrixXd matrix = matrix_of(points);
  return {std::move(points), std::move(means), process_.variances(matrix)};
}

VectorXd GpFeatures::deviations(const Uncertain& uncertain) const {
  return scale_ * uncertain.variances.values.cwiseSqrt();
}

}  // namespace tilewise
