#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tilewise {

struct Measurement;

/// The quantity that a race minimises. A winner's row has the objective that it was chosen by.
enum class Objective : std::uint8_t { time, energy };

/// `within` of time: a race changes a single measurement by a few percent, rarely by more. Slower
/// candidates are timed briefly, whatever the objective.
inline constexpr double kFinalistsWithin = 1.10;

/// One row of objectives(). A search proposes by time whatever the objective. Then finalists race,
/// and the winner is the fastest of those whose cost is nearly the least.
struct ObjectiveInfo {
  Objective objective;
  std::string_view name;
  std::string_view help;
  /// The quantity to minimise, of one product, in any unit: values are only compared with one
  /// another. 0 or NaN where it was not measured; without it no finalist wins. Null for time.
  double (*cost)(const Measurement&);
  bool needs_energy;    ///< the race measures Measurement::energy_mj: 0.6 to 0.8 s a finalist, NVML
  double within;        ///< finalists take at most this many times the best time
  std::size_t others;   ///< the least number of finalists that differ from the fastest ones
  double equal_within;  ///< costs count as equal up to this relative difference
};
std::span<const ObjectiveInfo> objectives();
const ObjectiveInfo& objective_info(Objective objective);

std::string_view to_string(Objective objective);
/// Throws Error(invalid_argument).
Objective parse_objective(std::string_view name);

}  // namespace tilewise
