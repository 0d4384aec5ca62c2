#pragma once
#include <string>

#include "vocabulary/record.hpp"

namespace tilewise::cli {

/// Energy per product: "12.3 mJ" where it was measured, "about 12 mJ" from one reading of the
/// power, otherwise "-".
std::string energy_text(const Measurement& measurement);
/// "700 W", or "-" where it is not known.
std::string power_limit_text(const Measurement& measurement);

}  // namespace tilewise::cli
