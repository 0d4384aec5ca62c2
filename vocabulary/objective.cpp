#include "vocabulary/objective.hpp"

#include <array>

#include "vocabulary/enum_names.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

double energy_of(const Measurement& measurement) { return measurement.energy_mj; }

// One row per objective, in the order of the enum. The energy counter is read at some tenths of a
// percent of a span, and the temperature of the chip changes from span to span: energies within 1%
// count as equal. A candidate that is 30% slower may need less energy.
constexpr std::array kObjectives{
    ObjectiveInfo{Objective::time, "time", "time", nullptr, false, kFinalistsWithin, 0, 0},
    ObjectiveInfo{Objective::energy, "energy", "energy per product among the fastest (NVML)",
                  energy_of, true, 1.30, 10, 0.01},
};

}  // namespace

std::span<const ObjectiveInfo> objectives() { return kObjectives; }

const ObjectiveInfo& objective_info(Objective objective) {
  return kObjectives.at(static_cast<std::size_t>(objective));
}

std::string_view to_string(Objective objective) { return objective_info(objective).name; }

Objective parse_objective(std::string_view name) {
  return parse_named<Objective>(name, "objective");
}

}  // namespace tilewise
