#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>
#include <string>
#include <string_view>

#include "tilewise/export.h"
#include "tilewise/problem.hpp"

namespace tilewise {

/// How a stored record serves a problem. `exact`: the winner of the problem itself. `predicted`:
/// the winner of another problem of the same types and mode that is expected to be fastest for this
/// one. `default_`: no record; the default configuration of a kernel template.
enum class MatchKind : std::uint8_t { exact, predicted, default_ };
/// "exact", "predicted", "default".
TILEWISE_API std::string_view to_string(MatchKind kind);

/// The stored record that serves a problem, as printable values.
struct Match {
  MatchKind kind = MatchKind::default_;
  /// The problem of the stored record. For `default_`, the problem of the lookup.
  Problem problem;
  std::string kernel_template;  ///< name of the template: "simt"
  std::string configuration;    ///< canonical JSON: {"TILE_K":8,"TILE_M":128}

  // The stored measurement of `problem`. For `default_` it is 0 and empty.
  double measured_us = 0;      ///< median GPU time of one product
  double measured_tflops = 0;  ///< rate at that time; for integers 10^12 operations per second
  double spread = 0;           ///< relative: half the interquartile range over the median
  std::string measured_at;     ///< ISO 8601, UTC
  bool stale = false;          ///< measured with another kernel source or compiler

  /// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b| with b the batch; 0 for `exact`.
  double distance = 0;
  /// The expected time for the problem of the lookup; 0: not known. It is the cost model's time,
  /// for `predicted` corrected by measured over modelled times of stored records.
  double predicted_us = 0;
  std::string limited_by;  ///< the cost model's bottleneck: "multiply-adds"; empty: not known
  std::string why;         ///< the reason, in one sentence
  /// The order in which the products of an element of C are added ("tensor16", see set_order());
  /// empty: it depends on m, the batch or the GPU.
  std::string order;

  /// Products of the problem in the mode `emulated` that this Matmul has run: those whose error the
  /// certificate bounded, and those that it left to the native units. Counted by the device when a
  /// product runs, in a replayed graph too. 0 in other modes.
  std::int64_t emulated_runs = 0, native_runs = 0;
};

}  // namespace tilewise
