#pragma once
#include <string>
#include <vector>

#include "bench/compare/result.hpp"

namespace tilewise::bench {

/// One run of compare.
struct Report {
  DeviceInfo device;
  std::string driver, toolkit;  ///< "NVRTC 13.0, cuBLAS 13.1.0"
  bool cold = true;
  int rounds = 0;
  double seconds = 0;
  std::vector<Section> sections;
  std::vector<std::string> notes;  ///< warnings of the Matmul
};

/// For each kind one row per shape, then its summary: for people.
std::string table_text(const Report& report);
/// {"device", "driver", "toolkit", "timing", "kinds": [...], "notes"}, times in microseconds; what
/// else a result must carry, bench/record.py adds. A kind: {"kind", "rates", "shapes": [...],
/// "summary"}. A shape: {"problem", "match", "why", "stale", "candidate", "columns": {"tuned":
/// {"measurement" or null, "error_ratio", "normwise_error", "detail"}, ...}, "tflops",
/// "better_cublas_us", "ratio", "floor_us", "over_floor", "error_over_strict", "error"}; null where
/// there is no figure.
std::string json_text(const Report& report);
/// "bf16 nt 8x4096x4096  8.51 us, 1.32x cuBLAS (9 of 29)": for whoever waits.
std::string progress_text(const Row& row, std::size_t number, std::size_t of);

}  // namespace tilewise::bench
