#pragma once
#include <string>

#include "vocabulary/record.hpp"

namespace tilewise::cli {

/// Energy per product: "12.3 mJ" where it was measured, "about 12 mJ" by one reading of the power,
/// else "-".
std::string energy_text(const Measurement& measurement);
/// "700 W"; "-" where it is not known.
std::string power_limit_text(const Measurement& measurement);

}  // namespace tilewise::cli
