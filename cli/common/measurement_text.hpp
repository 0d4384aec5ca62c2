#pragma once
#include <string>

#include "cli/common/output.hpp"
#include "tuner/certainty.hpp"
#include "vocabulary/record.hpp"

/// What was measured, in words.
namespace tilewise::cli {

/// "fastest of 7 in the race with a probability of 93.1% or more; ...".
std::string certainty_text(const Certainty& certainty);
/// {"rivals", "alike", "rounds", "fastest", "gain_at_most"}.
Json certainty_json(const Certainty& certainty);

/// Energy per product: "12.3 mJ" where it was measured, "about 12 mJ" from one reading of the
/// power, otherwise "-".
std::string energy_text(const Measurement& measurement);
/// "700 W", or "-" where it is not known.
std::string power_limit_text(const Measurement& measurement);

}  // namespace tilewise::cli
