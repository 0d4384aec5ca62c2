#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilewise/call.hpp"
#include "tuner/evaluate/known_results.hpp"
#include "tuner/evaluate/placement.hpp"
#include "tuner/evaluate/staging.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// What validation found.
struct Verdict {
  Outcome outcome = Outcome::ok;  ///< ok or wrong_result
  std::string detail;             ///< of ok, for f32x3 and tf32: what strict f32's error is beside
  double error_ratio = 0;     ///< largest over all runs; finite, 1e30 stands for "infinitely wrong"
  double normwise_error = 0;  ///< of bounded data, beta = 0; finite likewise
};

/// Enqueues one product.
using Enqueue = std::function<void(const Call&)>;

/// Runs a candidate of one problem on the reference's data and judges what it wrote: all its data
/// sets, both pairs of scalars, operands aligned exactly as the problem promises, everything around
/// C and the inputs watched (docs/measuring.md). Where memory allows, a run is judged while the
/// next one runs, and what is bit for bit as it was found right before is recognised on the device.
/// Device failures pass through as Error. Not thread-safe.
class Validator {
 public:
  /// Device bytes for keeping all data sets there, and for one at a time (copied anew for each
  /// run).
  static std::int64_t resident_bytes(const Problem& problem);
  static std::int64_t minimal_bytes(const Problem& problem);

  /// `spare_bytes`: device memory beside all this, for what was right before; used when resident.
  /// Throws Error(out_of_memory).
  Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
            bool resident, std::int64_t spare_bytes = 0);

  Verdict validate(const Enqueue& enqueue);

  /// Launches again and again on the bounded data, for a quarter of a second (two turns at least,
  /// 200 at most): wrong_result unless C has the same bits each time. Finds what comes too early or
  /// too late only now and then. After validate().
  Verdict repeat(const Enqueue& enqueue);

  /// Gives back what `spare_bytes` allowed; whether there was anything. All is judged on the host
  /// from then on.
  bool give_back_spare();

  /// The bounded data, for timing where there is no memory for other buffers.
  Call timing_call();

 private:
  struct Inputs {
    DeviceMatrix a, b, c0;
    DeviceBuffer a_kept, b_kept;  // what A and B must be; empty where there is no memory for it
  };
  // One of the runs: a data set with a pair of scalars.
  struct Run {
    DataSet set;
    int index;
  };
  void load_scalars();
  void use_spare(std::int64_t bytes);
  void reload();
  void load(DataSet set);
  void upload_inputs(DataSet set);
  void keep(const DeviceMatrix& matrix, const DeviceBuffer& kept);
  bool is_as_kept(const DeviceMatrix& matrix, const DeviceBuffer& kept);
  Inputs& inputs(DataSet set) { return inputs_[resident_ ? static_cast<std::size_t>(set) : 0]; }
  // Runs take turns with what they write into.
  const DeviceMatrix& c_of(std::size_t run) const { return c_[run % c_.size()]; }
  Call call_for(const Run& run, const DeviceMatrix& c);
  void prepare_c(const Run& run, const DeviceMatrix& c);
  void start(const Enqueue& enqueue, std::size_t number);
  bool judge(std::size_t number, Verdict& verdict);
  bool compare(const Run& run, const DeviceMatrix& c, Judgement& judgement, Verdict& verdict);
  bool inputs_unchanged(DataSet set, Verdict& verdict);

  Device& device_;
  Stream stream_;
  OwnedStream copies_;  // what comes back to the host, while stream_ computes
  std::shared_ptr<const Reference> reference_;
  bool resident_;
  std::vector<Run> runs_;       // in the order they are done: two of each set
  std::vector<Inputs> inputs_;  // one a data set, or only the first, holding `loaded_`
  int loaded_ = -1;
  std::vector<DeviceMatrix> c_;  // two where memory allows, so that one is judged beside a run
  std::vector<std::unique_ptr<Event>> done_;  // by place in c_: the run that writes it
  DeviceBuffer scalars_;                      // bounded data's alpha and beta
  DeviceBuffer first_c_;                      // repeat()'s, where memory allows
  Staging staging_;
  std::optional<KnownResults> known_;  // where memory allows
};

}  // namespace tilewise
