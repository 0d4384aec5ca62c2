#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>

#include "tilewise/call.hpp"
#include "tilewise/record.hpp"
#include "tuner/placement.hpp"
#include "tuner/reference.hpp"

namespace tilewise {

/// What validation found.
struct Verdict {
  Outcome outcome = Outcome::ok;  ///< ok or wrong_result
  std::string detail;
  double error_ratio = 0;     ///< largest over all runs; finite, 1e30 stands for "infinitely wrong"
  double normwise_error = 0;  ///< of bounded data, beta = 0; finite likewise
};

/// Enqueues one product.
using Enqueue = std::function<void(const Call&)>;

/// Runs a candidate of one problem on the reference's data and judges what it wrote: both data
/// sets, both pairs of scalars, operands aligned exactly as the problem promises, everything around
/// C and the inputs watched (docs/measuring.md). Device failures pass through as Error. Not
/// thread-safe.
class Validator {
 public:
  /// Device bytes for keeping both data sets there, and for one at a time (copied anew for each
  /// run).
  static std::int64_t resident_bytes(const Problem& problem);
  static std::int64_t minimal_bytes(const Problem& problem);

  /// Throws Error(out_of_memory).
  Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
            bool resident);

  Verdict validate(const Enqueue& enqueue);

  /// The bounded data, for timing where there is no memory for other buffers.
  Call timing_call();

 private:
  struct Inputs {
    DeviceMatrix a, b, c0;
  };
  void reload();
  void load(DataSet set);
  Inputs& inputs(DataSet set) { return inputs_[resident_ ? static_cast<std::size_t>(set) : 0]; }
  Call call_for(DataSet set, const Scalars& scalars, bool scalars_on_device);
  void prepare_c(DataSet set, const Scalars& scalars);
  bool run(const Enqueue& enqueue, DataSet set, int index, Verdict& verdict);
  bool inputs_unchanged(DataSet set, Verdict& verdict);

  Device& device_;
  Stream stream_;
  std::shared_ptr<const Reference> reference_;
  bool resident_;
  std::array<Inputs, 2> inputs_;  // one a data set, or only the first, holding `loaded_`
  int loaded_ = -1;
  DeviceMatrix c_;
  DeviceBuffer scalars_;  // alpha and beta in the accumulator's type
  HostBuffer staging_;    // page-locked; holds all of C's allocation
};

}  // namespace tilewise
