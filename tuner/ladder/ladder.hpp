#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuner/ladder/rungs.hpp"
#include "tuner/tuner.hpp"

namespace tilewise {

/// All rungs of one product on one device, lowest first.
struct Ladder {
  DeviceInfo device;
  Problem problem;
  bool cold = true;
  double seconds = 0;
  std::vector<Rung> rungs;
  bool interrupted = false;
};

struct LadderContext {
  Database& database;
  ImageCache* cache = nullptr;         ///< may be null
  const Compiler* compiler = nullptr;  ///< null: only stored images can be measured
  std::string device;                  ///< as `--device`
  DeviceInfo info;                     ///< of that device
  TimingOptions timing = {};
  double budget_seconds = 0;  ///< for tuning where no winner is stored
  std::function<TuneResult(const Problem& problem, double budget_seconds)> tune = {};
  std::function<void(const std::string& now)> progress = {};
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: finish the current rung
};

/// Measures every rung in order: the CPU, the teaching kernels, the winners (strict f32, then the
/// device's tensor-core modes), the other library. Tunes first where no winner is stored. `problem`
/// is strict f32.
Ladder measure_ladder(const Problem& problem, const LadderContext& context);

/// TFLOP/s of a rung; 0 when it was not timed.
double tflops_of(const Ladder& ladder, const Rung& rung);
/// The device's peak in f32 TFLOP/s; 0 when not known.
double peak_tflops(const Ladder& ladder);
/// The last timed rung below `index` with the same arithmetic, for comparison. Rungs of different
/// arithmetic differ in accuracy.
std::optional<std::size_t> rung_before(const Ladder& ladder, std::size_t index);
/// The speed relative to rung_before(); 0 without such a rung.
double times_before(const Ladder& ladder, std::size_t index);
/// The rung's share of the device's f32 peak; 0 for other arithmetic.
double share_of_peak(const Ladder& ladder, const Rung& rung);

}  // namespace tilewise
