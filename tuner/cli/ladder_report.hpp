#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tuner/cli/ladder_rungs.hpp"
#include "tuner/cli/output.hpp"

namespace tilewise::cli {

/// All rungs of one product on one device, the lowest first.
struct Ladder {
  DeviceInfo device;
  Problem problem;
  bool cold = true;
  double seconds = 0;
  std::vector<Rung> rungs;
  bool interrupted = false;
};

/// TFLOP/s of a rung; 0 when it was not timed.
double tflops_of(const Ladder& ladder, const Rung& rung);
/// TFLOP/s of f32 that the device could do at most; 0: not known.
double peak_tflops(const Ladder& ladder);
/// The unit of all its rates.
RateUnit rate_unit(const Ladder& ladder);
/// The last timed rung below `index` of the same arithmetic, which it is compared with. Rungs of
/// different arithmetic give results of different accuracy.
std::optional<std::size_t> rung_before(const Ladder& ladder, std::size_t index);

/// A row for each rung, and the device's peak.
void print_ladder(const Ladder& ladder, const Output& output);
/// {"device", "gpu", "problem", "cold", "peak_tflops", "seconds", "rungs": [{"rung", "name",
/// "what", "arithmetic", "candidate" or null, "outcome", "detail", "measurement" or null, "tflops",
/// "times_before", "before" (the number of that rung), "share_of_peak", "bytes_per_flop",
/// "error_ratio", "normwise_error"}], "interrupted"}; null where there is no figure.
std::string ladder_json(const Ladder& ladder);

/// The figure: what gnuplot is told, a bar for each timed rung and a line for the peak.
std::string figure_script(const Ladder& ladder, const std::string& svg);
/// gnuplot's place on PATH. Throws Error(unsupported) saying how to get it.
std::string find_gnuplot();
/// Draws the figure into the file `svg`. Throws Error(io) with gnuplot's words.
void draw_figure(const Ladder& ladder, const std::string& svg, const std::string& gnuplot);

}  // namespace tilewise::cli
