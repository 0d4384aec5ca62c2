#pragma once
#include <optional>

#include "db/database.hpp"
#include "matmul/corrections.hpp"

/// Corrections of the cost model in the database. The library reads them; the tuner makes them.
namespace tilewise {

/// The corrections for the problem's types on the device; none if none are stored or if they are of
/// another version of the cost model. Damage is a warning of the database.
std::optional<Corrections> load_corrections(const Database& database, const Problem& problem,
                                            const DeviceInfo& device);

/// Corrections from the device's own measurements, otherwise the shipped ones. They compare a
/// portfolio's candidates with stored ones.
std::optional<Corrections> own_or_shipped_corrections(const Database& database,
                                                      const Problem& problem,
                                                      const DeviceInfo& device);

enum class Assess { no, yes };
/// Fits corrections to the newest 20,000 ok records of the problem's types on the device and stores
/// them, if there are enough records and at least `growth` times as many as the stored corrections
/// were fitted to. Returns whether it did.
bool refresh_corrections(Database& database, const Problem& problem, const DeviceInfo& device,
                         double growth = 1.1, Assess assess = Assess::yes);

}  // namespace tilewise
