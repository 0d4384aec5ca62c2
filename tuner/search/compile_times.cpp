#include "tuner/search/compile_times.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <utility>

namespace tilewise {
namespace {

// A column has a range of 1. A slope counts half once its squared deviations from the mean sum to
// this.
constexpr double kRidge = 2;

}  // namespace

CompileTimes::Kernel::Kernel(const KernelTemplate& kernel) : columns(kernel) {
  const auto size = static_cast<Eigen::Index>(columns.columns());
  points = products = slope = Eigen::VectorXd::Zero(size);
  squares = Eigen::MatrixXd::Zero(size, size);
}

Eigen::VectorXd CompileTimes::Kernel::point(const Candidate& candidate) const {
  Eigen::VectorXd point(static_cast<Eigen::Index>(columns.columns()));
  columns.write(candidate.configuration, point.data());
  return point;
}

CompileTimes::CompileTimes(const std::vector<const KernelTemplate*>& templates) {
  for (const KernelTemplate* kernel : templates) kernels_.emplace(kernel->name, *kernel);
}

void CompileTimes::observe(const Candidate& candidate, double seconds) {
  const auto found = kernels_.find(candidate.kernel_template);
  if (found == kernels_.end() || !(seconds > 0)) return;
  Kernel& kernel = found->second;
  const double logarithm = std::log(seconds);
  const Eigen::VectorXd point = kernel.point(candidate);
  kernel.count += 1;
  kernel.sum += logarithm;
  kernel.points += point;
  kernel.products += point * logarithm;
  kernel.squares += point * point.transpose();
  kernel.fitted = false;
  count_ += 1;
  sum_ += logarithm;
}

void CompileTimes::fit(const Kernel& kernel) {
  if (std::exchange(kernel.fitted, true)) return;
  Eigen::MatrixXd squares =
      kernel.squares - kernel.points * kernel.points.transpose() / kernel.count;
  squares.diagonal().array() += kRidge;
  kernel.slope =
      squares.ldlt().solve(kernel.products - kernel.points * (kernel.sum / kernel.count));
}

std::optional<double> CompileTimes::expected(const Candidate& candidate) const {
  if (count_ == 0) return std::nullopt;
  const auto found = kernels_.find(candidate.kernel_template);
  if (found == kernels_.end() || found->second.count == 0) return std::exp(sum_ / count_);
  const Kernel& kernel = found->second;
  fit(kernel);
  const Eigen::VectorXd from_mean = kernel.point(candidate) - kernel.points / kernel.count;
  return std::exp(kernel.sum / kernel.count + kernel.slope.dot(from_mean));
}

}  // namespace tilewise
