#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "tuner/evaluate/placement.hpp"

namespace tilewise {

/// What the comparison with the reference said of a right result.
struct Judgement {
  double error_ratio = 0, normwise_error = 0;
};

/// Results that were compared with the reference and are right, kept on the device with all that
/// lies around them: a candidate that writes the very same bits is as right as the one before.
/// Exact data have one right result; of other data every order of summation has its own, and a few
/// are kept. Not thread-safe.
class KnownResults {
 public:
  /// For so many runs; takes at most that much device memory, when there is something to keep.
  KnownResults(Device& device, std::size_t runs, std::int64_t bytes)
      : device_(device), runs_(runs), bytes_left_(bytes) {}

  /// What is known of a result of that run; waits for what `stream` holds.
  std::optional<Judgement> find(std::size_t run, const DeviceMatrix& c, Stream stream);
  /// A copy of a result that is to be judged, in place of the one not seen for longest; null where
  /// there is no memory for any. The copy is what has to be judged: `c` may be written to.
  const DeviceMatrix* hold(std::size_t run, const DeviceMatrix& c, Stream stream);
  /// What is held for that run was found right.
  void keep_held(std::size_t run, const Judgement& judgement);
  void forget_all();

 private:
  struct Result {
    DeviceMatrix copy;
    Judgement judgement;
  };
  bool take_place(std::list<Result>& results, const Placement& placement);

  Device& device_;
  std::vector<std::list<Result>> runs_;  // of each run, the one seen last first
  std::list<Result> held_;               // at most one, not judged yet
  std::int64_t bytes_left_;
};

}  // namespace tilewise
