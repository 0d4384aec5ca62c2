#pragma once
#include <optional>

#include "db/database.hpp"
#include "matmul/corrections.hpp"

/// Corrections of the cost model in the database: read for a choice, made anew by the tuner.
namespace tilewise {

/// Of the problem's types on the device. None where none are stored, or none of this version's cost
/// model. Damage is a warning of the database.
std::optional<Corrections> load_corrections(const Database& database, const Problem& problem,
                                            const DeviceInfo& device);

/// Those of the device's own measurements, else those that ship: by these a portfolio's candidates
/// are compared with what is stored.
std::optional<Corrections> own_or_shipped_corrections(const Database& database,
                                                      const Problem& problem,
                                                      const DeviceInfo& device);

enum class Assess { no, yes };
/// Fits corrections to the newest 20,000 ok records of the problem's types on the device, and
/// stores them, where there are enough records and at least `growth` times as many as the stored
/// ones were made of. Returns whether it did.
bool refresh_corrections(Database& database, const Problem& problem, const DeviceInfo& device,
                         double growth = 1.1, Assess assess = Assess::yes);

}  // namespace tilewise
