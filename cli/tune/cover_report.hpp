#pragma once
#include <string>

#include "cli/common/gpus.hpp"
#include "cli/common/output.hpp"
#include "cli/common/progress.hpp"
#include "tuner/cover.hpp"

namespace tilewise::cli {

/// The result of `autotune cover` on one device.
struct Covered {
  Gpu gpu;
  std::size_t devices = 1;  ///< identical devices, `gpu` included
  SizeRange range;
  CoverResult result;
};

/// The progress line of a run.
ProgressLine cover_line(const CoverProgress& progress);
/// The configurations of each layout, the mean expected loss and the sizes of the largest.
void print_covered(const Covered& covered, const Output& output);
Json covered_json(const Covered& covered);

}  // namespace tilewise::cli
