#pragma once
#include <string>

#include "tuner/certainty.hpp"

namespace tilewise::cli {

/// "fastest of 7 in the race with a probability of 93.1% or more; ...".
std::string certainty_text(const Certainty& certainty);
/// {"rivals", "alike", "rounds", "fastest", "gain_at_most"}.
std::string certainty_json(const Certainty& certainty);

}  // namespace tilewise::cli
