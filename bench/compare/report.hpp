#pragma once
#include <string>
#include <vector>

#include "bench/compare/result.hpp"

namespace tilewise::bench {

/// What a result must carry beside its figures (docs/measuring.md); the keys of bench/record.py.
struct Envelope {
  std::string command, commit, date, gpu, driver, toolkit;
  double max_sm_clock_mhz = 0, power_limit_w = 0;
};

/// One run of compare.
struct Report {
  Envelope envelope;
  DeviceInfo device;
  Rates rates;
  bool cold = true;
  int rounds = 0;
  double seconds = 0;
  std::vector<Row> rows;
  std::vector<std::string> notes;  ///< warnings of the Matmul
};

/// One row per shape, then the summary: for people.
std::string table_text(const Report& report);
/// {"command", "commit", "date", "gpu", "driver", "toolkit", "max_sm_clock_mhz", "power_limit_w",
/// "seconds", "result": {"device", "timing", "rates", "shapes": [...], "summary", "notes"}}, times
/// in microseconds. A shape: {"problem", "match", "why", "stale", "candidate", "columns": {"tuned":
/// {"measurement" or null, "error_ratio", "detail"}, ...}, "better_cublas_us", "ratio", "floor_us",
/// "over_floor", "error"}; null where there is no figure.
std::string json_text(const Report& report);
/// "nt 8x4096x4096  8.51 us, 1.32x cuBLAS (9 of 29)": for whoever waits.
std::string progress_text(const Row& row, std::size_t number, std::size_t of);

}  // namespace tilewise::bench
