#pragma once
#include <optional>
#include <string>
#include <vector>

#include "matmul/resolution.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/record.hpp"

/// The results of compare and figures computed from them, as plain values.
namespace tilewise::bench {

/// The contestants, in the order of the table. `bare` is ours without the problem's epilogue.
enum class Player { tuned, cublas, cublas_pedantic, cublas_lt, bare };
/// Those that every problem has.
inline constexpr Player kPlayers[] = {Player::tuned, Player::cublas, Player::cublas_pedantic,
                                      Player::cublas_lt};
/// "tuned", "cublas", "cublas_pedantic", "cublas_lt_best", "bare".
std::string_view to_string(Player player);

/// One player's result for one shape.
struct Column {
  Player player = Player::tuned;
  std::optional<Measurement> measurement;
  double error_ratio = 0;     ///< largest error over its bound
  double normwise_error = 0;  ///< ||got - ref|| / ||ref||
  std::string detail;         ///< why there is no measurement; otherwise the candidate or a remark
};

/// One shape of one kind. `error` is not empty if it could not be measured.
struct Row {
  Problem problem;
  Resolution resolution;        ///< the record that serves it
  double strict_f32_error = 0;  ///< norm-wise error of a strict f32 product; for tf32, f32x3 only
  std::vector<Column> columns;
  std::string error;
};

/// The rates behind the physical floor. 0: not known.
struct Rates {
  double flops = 0;  ///< per second
  double bytes = 0;  ///< per second, read and written together
  std::string source;
};

/// All shapes of one kind.
struct Section {
  const ProductKind* kind = nullptr;
  Rates rates;
  std::vector<Row> rows;
};

/// Null if a player has no time.
const Measurement* time_of(const Row& row, Player player);
/// The fastest cuBLAS column; null if there is none.
const Measurement* better_cublas(const Row& row);
/// The better cuBLAS column's time over ours; above 1 ours is faster.
std::optional<double> ratio_of(const Row& row);
/// Our time over that of the product without the epilogue, if there is one.
std::optional<double> over_bare(const Row& row);
/// Our norm-wise error over that of strict f32 on the same data, for tf32 and f32x3.
std::optional<double> error_over_strict(const Row& row);

/// The given rates (0: not given); otherwise those measured on an H200, for that GPU; otherwise the
/// device's stated rate, which is known for strict f32 only.
Rates rates_for(const DeviceInfo& info, const ProductKind& kind, double flops, double bytes);

/// max(2mnk / peak, operand and result bytes once / copy rate, 2 us), in microseconds; 0 if the
/// rates are not known (docs/measuring.md).
double floor_us(const Problem& problem, const Rates& rates);

struct Summary {
  int compared = 0, failed = 0, not_exact = 0;   ///< not_exact: served by prediction or default
  double geometric_mean = 0, minimum = 0;        ///< of ratio_of(); 0 if nothing was compared
  std::vector<const Row*> worst;                 ///< at most three, the smallest ratio first
  int below_100 = 0, below_097 = 0;              ///< ratios below 1.00, below 0.97
  double over_floor = 0, cublas_over_floor = 0;  ///< geometric means of time over floor_us()
  double error_over_strict = 0;                  ///< the largest; 0 without any
};
/// `rows` must outlive the summary.
Summary summarize(const std::vector<Row>& rows, const Rates& rates);

}  // namespace tilewise::bench
