// Regression by a Gaussian process, and the columns that it learns from.
#include "tuner/search/gaussian_process.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tuner/search/feature_columns.hpp"

namespace tilewise::gaussian_process_test {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_points(std::mt19937_64& generator, int rows, int columns) {
  std::uniform_real_distribution<double> uniform(0, 1);
  MatrixXd points(rows, columns);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) points(i, j) = uniform(generator);
  return points;
}

/// A function of the first two columns.
VectorXd wanted(const MatrixXd& points) {
  VectorXd values(points.rows());
  for (Eigen::Index i = 0; i < points.rows(); ++i)
    values[i] = std::sin(4 * points(i, 0)) + points(i, 1) * points(i, 1) - 1;
  return values;
}

double error_of(const GaussianProcess& process, const MatrixXd& points) {
  return std::sqrt((process.mean(points) - wanted(points)).squaredNorm() /
                   static_cast<double>(points.rows()));
}

TEST(GaussianProcess, LearnsWhichColumnsMatter) {
  std::mt19937_64 generator(1);
  const MatrixXd points = random_points(generator, 60, 6),
                 others = random_points(generator, 200, 6);
  GaussianProcess process({0, 1, 2, 3, 4, 5});
  process.condition(points, wanted(points), MatrixXd(0, 6));
  const double before = error_of(process, others);
  process.fit(points, wanted(points), 40);
  process.condition(points, wanted(points), MatrixXd(0, 6));
  EXPECT_LT(error_of(process, others), 0.5 * before);
  EXPECT_LT(error_of(process, others), 0.05);
  EXPECT_LT(error_of(process, points), 0.05);
}

TEST(GaussianProcess, KnowsWhatItDoesNotKnow) {
  std::mt19937_64 generator(2);
  const MatrixXd points = 0.3 * random_points(generator, 30, 2);
  GaussianProcess process({0, 1});
  process.condition(points, wanted(points), MatrixXd(0, 2));
  MatrixXd asked(2, 2);
  asked << points(0, 0), points(0, 1), 1, 1;
  const VectorXd variances = process.variances(asked).values;
  EXPECT_LT(variances[0], 0.01);
  EXPECT_GT(variances[1], 20 * variances[0]);
}

TEST(GaussianProcess, WithoutPointsHasMeanZero) {
  GaussianProcess process({0});
  process.condition(MatrixXd(0, 1), VectorXd(0), MatrixXd(0, 1));
  EXPECT_EQ(process.mean(MatrixXd::Ones(3, 1)), VectorXd::Zero(3));
  EXPECT_GT(process.variances(MatrixXd::Ones(1, 1)).values[0], 0.5);
}

TEST(GaussianProcess, PointsUnderWayLowerVariancesAndLeaveMeans) {
  std::mt19937_64 generator(3);
  const MatrixXd points = random_points(generator, 20, 3), asked = random_points(generator, 10, 3);
  GaussianProcess process({0, 1, 2});
  process.condition(points, wanted(points), MatrixXd(0, 3));
  const VectorXd means = process.mean(asked);
  GaussianProcess::Variances chosen = process.variances(asked);
  const VectorXd before = chosen.values;
  process.choose(chosen, 4);
  process.condition(points, wanted(points), asked.row(4));
  EXPECT_LT((process.mean(asked) - means).norm(), 1e-9);
  const VectorXd after = process.variances(asked).values;
  EXPECT_LT(after[4], 0.1 * before[4]);
  EXPECT_TRUE((after.array() <= before.array() + 1e-12).all());
  EXPECT_LT((after - chosen.values).norm(), 1e-9) << "choose() says the same";
}

KernelTemplate template_of(const std::vector<Parameter>& parameters) {
  KernelTemplate kernel;
  kernel.parameters = parameters;
  return kernel;
}

std::vector<double> columns_of(const FeatureColumns& features, const Configuration& configuration) {
  std::vector<double> columns(features.columns());
  features.write(configuration, columns.data());
  return columns;
}

TEST(FeatureColumns, HaveARangeOfOneAndNumbersCountByTheirLogarithm) {
  const FeatureColumns features(
      template_of({{"TILE", {16, 32, 64}, ""}, {"PAD", {0, 1}, ""}, {"ONE", {7}, ""}}));
  EXPECT_EQ(columns_of(features, {{"TILE", 16}, {"PAD", 0}, {"ONE", 7}}),
            (std::vector<double>{-0.5, -0.5}));
  EXPECT_EQ(columns_of(features, {{"TILE", 32}, {"PAD", 1}, {"ONE", 7}}),
            (std::vector<double>{0, 0.5}));
}

TEST(FeatureColumns, OtherNumbersCountByTheirFactorsTwoToo) {
  const FeatureColumns features(template_of({{"TILE", {16, 24, 32}, ""}}));
  ASSERT_EQ(features.groups(), (std::vector<int>{0, 1}));
  EXPECT_EQ(columns_of(features, {{"TILE", 16}})[1], 4.0 / 5 - 0.5);
  EXPECT_EQ(columns_of(features, {{"TILE", 24}})[1], 3.0 / 5 - 0.5);
  EXPECT_EQ(columns_of(features, {{"TILE", 32}})[1], 0.5);
}

TEST(FeatureColumns, LabelsAreEquallyFarApart) {
  const FeatureColumns features(
      template_of({{"PACK", {0, 1, 2}, "", {"no", "padded", "transposed"}}}));
  EXPECT_EQ(features.groups(), (std::vector<int>{0, 0, 0}));
  const auto distance = [&](int x, int y) {
    const auto a = columns_of(features, {{"PACK", x}}), b = columns_of(features, {{"PACK", y}});
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  };
  EXPECT_NEAR(distance(0, 1), 1, 1e-12);
  EXPECT_NEAR(distance(0, 2), 1, 1e-12);
}

TEST(FeatureColumns, DoNotDependOnTheOrderOfValues) {
  const FeatureColumns one(
      template_of({{"A", {1, 3, 8}, ""}, {"B", {0, 1, 2}, "", {"x", "y", "z"}}}));
  const FeatureColumns other(
      template_of({{"A", {8, 1, 3}, ""}, {"B", {2, 0, 1}, "", {"z", "x", "y"}}}));
  for (const int a : {1, 3, 8})
    for (const int b : {0, 1, 2})
      EXPECT_EQ(columns_of(one, {{"A", a}, {"B", b}}), columns_of(other, {{"A", a}, {"B", b}}));
}

}  // namespace
}  // namespace tilewise::gaussian_process_test
