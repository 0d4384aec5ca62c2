#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "tuner/evaluate/placement.hpp"

namespace tilewise {

/// The errors of a correct result, from its comparison with the reference.
struct Judgement {
  double error_ratio = 0, normwise_error = 0;
};

/// Correct results with their guard zones, stored on the device: a candidate that writes the same
/// bits needs no further comparison. Exact data have one correct result. With other data the result
/// depends on the order of summation; up to four are stored per run. Not thread-safe.
class KnownResults {
 public:
  /// For `runs` runs and at most `bytes` of device memory, allocated on demand.
  KnownResults(Device& device, std::size_t runs, std::int64_t bytes)
      : device_(device), runs_(runs), bytes_left_(bytes) {}

  /// The stored judgement of a result with the same bits in that run; waits for `stream`.
  std::optional<Judgement> find(std::size_t run, const DeviceMatrix& c, Stream stream);
  /// Copies a result before it is judged and replaces the least recently used one; null without
  /// memory. The caller judges the copy, since `c` may be overwritten.
  const DeviceMatrix* hold(std::size_t run, const DeviceMatrix& c, Stream stream);
  /// Marks the held copy of that run as correct.
  void accept_copy(std::size_t run, const Judgement& judgement);
  void forget_all();

 private:
  struct Result {
    DeviceMatrix copy;
    Judgement judgement;
  };
  bool take_place(std::list<Result>& results, const Placement& placement);

  Device& device_;
  std::vector<std::list<Result>> runs_;  // per run, most recently used first
  std::list<Result> held_;               // at most one copy, not judged yet
  std::int64_t bytes_left_;
};

}  // namespace tilewise
