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

/// All rungs of one product on one device, the lowest first.
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
  double budget_seconds = 0;  ///< to tune for where no winner is stored
  std::function<TuneResult(const Problem& problem, double budget_seconds)> tune = {};
  std::function<void(const std::string& now)> progress = {};
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: finish the current rung
};

/// Measures every rung in order: the CPU, the teaching kernels, the winners (strict f32's, then
/// those of the modes that the device's tensor cores have), the other library. Winners that are not
/// stored are tuned for first. `problem` is strict f32.
Ladder measure_ladder(const Problem& problem, const LadderContext& context);

/// TFLOP/s of a rung; 0 when it was not timed.
double tflops_of(const Ladder& ladder, const Rung& rung);
/// TFLOP/s of f32 that the device could do at most; 0: not known.
double peak_tflops(const Ladder& ladder);
/// The last timed rung below `index` of the same arithmetic, which it is compared with. Rungs of
/// different arithmetic give results of different accuracy.
std::optional<std::size_t> rung_before(const Ladder& ladder, std::size_t index);
/// How many times as fast as that rung; 0 where there is none.
double times_before(const Ladder& ladder, std::size_t index);
/// Of the device's f32 peak; 0 for other arithmetic.
double share_of_peak(const Ladder& ladder, const Rung& rung);

}  // namespace tilewise
