#pragma once
#include <string>

#include "cli/common/output.hpp"
#include "tuner/ladder/ladder.hpp"

namespace tilewise::cli {

/// Prints a row for each rung, and the device's peak.
void print_ladder(const Ladder& ladder, const Output& output);
/// {"device", "gpu", "problem", "cold", "peak_tflops", "seconds", "rungs": [{"rung", "name",
/// "what", "arithmetic", "candidate" or null, "outcome", "detail", "measurement" or null, "tflops",
/// "times_before", "before" (the number of that rung), "share_of_peak", "bytes_per_flop",
/// "error_ratio", "normwise_error"}], "interrupted"}; a missing figure is null.
Json ladder_json(const Ladder& ladder);

}  // namespace tilewise::cli
