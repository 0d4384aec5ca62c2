#include "bench/compare/result.hpp"

#include <algorithm>
#include <cmath>

namespace tilewise::bench {
namespace {

// Measured on an H200 at 700 W: loops of the multiply-add instruction alone, and a copy within
// device memory. The smallest kernel that loads, multiplies and stores takes 2 us there.
constexpr double kH200Bytes = 4.29e12;
constexpr double kSmallestKernel = 2;  // microseconds

double h200_flops(const ProductKind& kind) {
  constexpr double tf32 = 420e12, half = 870e12;
  if (kind.math == MathMode::tf32) return tf32;
  if (kind.math == MathMode::f32x3) return tf32 / 3;  // three partial products
  switch (kind.a) {
    case DType::f64:
      return 60e12;
    case DType::f16:
    case DType::bf16:
      return half;
    case DType::i8:
      return 1520e12;
    case DType::e4m3:
    case DType::e5m2:
      return 2 * half;  // its data sheet has twice the rate of 16 bits; not measured
    default:
      return 64.6e12;
  }
}

double stated_flops(const DeviceInfo& info, const ProductKind& kind) {
  return kind.a == DType::f32 && kind.math == MathMode::strict ? peak_flops(info) : 0;
}

/// The geometric mean of positive numbers; 0 without any.
class GeometricMean {
 public:
  void add(double value) {
    if (!(value > 0)) return;
    logarithms_ += std::log(value);
    ++count_;
  }
  double value() const { return count_ > 0 ? std::exp(logarithms_ / count_) : 0; }

 private:
  double logarithms_ = 0;
  int count_ = 0;
};

}  // namespace

std::string_view to_string(Player player) {
  switch (player) {
    case Player::tuned:
      return "tuned";
    case Player::cublas:
      return "cublas";
    case Player::cublas_pedantic:
      return "cublas_pedantic";
    case Player::cublas_lt:
      return "cublas_lt_best";
    case Player::bare:
      return "bare";
  }
  return "unknown";
}

const Measurement* time_of(const Row& row, Player player) {
  for (const Column& column : row.columns)
    if (column.player == player && column.measurement) return &*column.measurement;
  return nullptr;
}

const Measurement* better_cublas(const Row& row) {
  const Measurement* better = nullptr;
  for (const Player player : kPlayers) {
    const Measurement* time = player == Player::tuned ? nullptr : time_of(row, player);
    if (time && (!better || time->median_us < better->median_us)) better = time;
  }
  return better;
}

std::optional<double> ratio_of(const Row& row) {
  const Measurement* ours = time_of(row, Player::tuned);
  const Measurement* theirs = better_cublas(row);
  if (!ours || !theirs || !(ours->median_us > 0)) return std::nullopt;
  return theirs->median_us / ours->median_us;
}

std::optional<double> over_bare(const Row& row) {
  const Measurement* ours = time_of(row, Player::tuned);
  const Measurement* bare = time_of(row, Player::bare);
  if (!ours || !bare || !(bare->median_us > 0)) return std::nullopt;
  return ours->median_us / bare->median_us;
}

std::optional<double> error_over_strict(const Row& row) {
  if (!time_of(row, Player::tuned) || !(row.strict_f32_error > 0)) return std::nullopt;
  return row.columns.front().normwise_error / row.strict_f32_error;
}

Rates rates_for(const DeviceInfo& info, const ProductKind& kind, double flops, double bytes) {
  const bool h200 = info.name.find("H200") != std::string::npos;
  Rates rates;
  rates.flops = flops > 0 ? flops : h200 ? h200_flops(kind) : stated_flops(info, kind);
  rates.bytes = bytes > 0 ? bytes : h200 ? kH200Bytes : peak_bandwidth(info);
  if (flops > 0 && bytes > 0)
    rates.source = "given";
  else
    rates.source = std::string(h200 ? "measured on an H200 beforehand" : "as the device states") +
                   (flops > 0 || bytes > 0 ? ", one of them given" : "");
  return rates;
}

double floor_us(const Problem& problem, const Rates& rates) {
  if (!(rates.flops > 0) || !(rates.bytes > 0)) return 0;
  return std::max({1e6 * flops_of(problem) / rates.flops,
                   1e6 * operand_bytes(problem) / rates.bytes, kSmallestKernel});
}

Summary summarize(const std::vector<Row>& rows, const Rates& rates) {
  Summary summary;
  GeometricMean ratios, over_floor, cublas_over_floor;
  for (const Row& row : rows) {
    const double floor = floor_us(row.problem, rates);
    const Measurement* ours = time_of(row, Player::tuned);
    const Measurement* theirs = better_cublas(row);
    if (!row.error.empty()) ++summary.failed;
    if (ours && row.resolution.kind != MatchKind::exact) ++summary.not_exact;
    if (ours && floor > 0) over_floor.add(ours->median_us / floor);
    if (theirs && floor > 0) cublas_over_floor.add(theirs->median_us / floor);
    summary.error_over_strict =
        std::max(summary.error_over_strict, error_over_strict(row).value_or(0));
    const std::optional<double> ratio = ratio_of(row);
    if (!ratio) continue;
    ratios.add(*ratio);
    ++summary.compared;
    summary.below_100 += *ratio < 1.00;
    summary.below_097 += *ratio < 0.97;
    summary.worst.push_back(&row);
  }
  std::stable_sort(summary.worst.begin(), summary.worst.end(), [](const Row* x, const Row* y) {
    return ratio_of(*x).value() < ratio_of(*y).value();
  });
  if (!summary.worst.empty()) summary.minimum = ratio_of(*summary.worst.front()).value();
  summary.worst.resize(std::min<std::size_t>(3, summary.worst.size()));
  summary.geometric_mean = ratios.value();
  summary.over_floor = over_floor.value();
  summary.cublas_over_floor = cublas_over_floor.value();
  return summary;
}

}  // namespace tilewise::bench
