#include "cli/common/certainty_text.hpp"

#include <nlohmann/json.hpp>

#include "cli/common/output.hpp"

namespace tilewise::cli {

std::string certainty_text(const Certainty& certainty) {
  std::string text = "fastest of " + std::to_string(certainty.rivals + 1) +
                     " in the race with a probability of " + format_percent(certainty.fastest) +
                     " or more; ";
  if (certainty.alike == 0) return text + "no other is faster (95% confidence)";
  return text + std::to_string(certainty.alike) + " may be as fast, none is faster by more than " +
         format_percent(certainty.gain_at_most) + " (95% confidence)";
}

std::string certainty_json(const Certainty& certainty) {
  return nlohmann::ordered_json{{"rivals", certainty.rivals},
                                {"alike", certainty.alike},
                                {"rounds", certainty.rounds},
                                {"fastest", certainty.fastest},
                                {"gain_at_most", certainty.gain_at_most}}
      .dump();
}

}  // namespace tilewise::cli
