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

/// One row per shape for each kind, then its summary, for people.
std::string table_text(const Report& report);
/// {"device", "driver", "toolkit", "timing", "kinds": [...], "notes"}, times in microseconds;
/// bench/record.py adds the other fields of a result. A kind: {"kind", "rates", "shapes": [...],
/// "summary"}. A shape: {"problem", "match", "why", "stale", "candidate", "columns": {"tuned":
/// {"measurement" or null, "error_ratio", "normwise_error", "detail"}, ...}, "tflops",
/// "better_cublas_us", "ratio", "floor_us", "over_floor", "error_over_strict", "error"}; a missing
/// figure is null.
std::string json_text(const Report& report);
/// A progress line: "bf16 nt 8x4096x4096  8.51 us, 1.32x cuBLAS (9 of 29)".
std::string progress_text(const Row& row, std::size_t number, std::size_t of);

}  // namespace tilewise::bench
