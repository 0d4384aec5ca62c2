#pragma once
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

/// FLOP/s of a rung; 0 when it was not timed.
double rate_of(const Ladder& ladder, const Rung& rung);
/// How many times as fast as the last timed rung below it; 0 when there is none.
double times_before(const Ladder& ladder, std::size_t index);

/// A row for each rung, and the device's peak.
void print_ladder(const Ladder& ladder, const Output& output);
/// {"device", "gpu", "problem", "cold", "peak_flops", "seconds", "rungs": [{"rung", "name", "what",
/// "candidate" or null, "outcome", "detail", "measurement" or null, "flops", "times_before",
/// "share_of_peak", "bytes_per_flop", "error_ratio", "normwise_error"}], "interrupted"}; null where
/// there is no figure.
std::string ladder_json(const Ladder& ladder);

/// The figure: what gnuplot is told, a bar for each timed rung and a line for the peak.
std::string figure_script(const Ladder& ladder, const std::string& svg);
/// gnuplot's place on PATH. Throws Error(unsupported) saying how to get it.
std::string find_gnuplot();
/// Draws the figure into the file `svg`. Throws Error(io) with gnuplot's words.
void draw_figure(const Ladder& ladder, const std::string& svg, const std::string& gnuplot);

}  // namespace tilewise::cli
