#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilewise/call.hpp"
#include "tuner/evaluate/extra_operands.hpp"
#include "tuner/evaluate/known_results.hpp"
#include "tuner/evaluate/placement.hpp"
#include "tuner/evaluate/repetition.hpp"
#include "tuner/evaluate/staging.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// The result of validation.
struct Verdict {
  Outcome outcome = Outcome::ok;  ///< ok or wrong_result
  std::string detail;             ///< for ok with f32x3 or tf32: strict f32's error, to compare
  double error_ratio = 0;     ///< largest of all runs; finite, 1e30 stands for "infinitely wrong"
  double normwise_error = 0;  ///< of bounded data, beta = 0; also finite
};

/// Runs a candidate on the reference's data and judges its results (docs/measuring.md): all data
/// sets, both pairs of scalars, operands with exactly the promised alignment, canaries around C,
/// the inputs and the operands of an epilogue. Where memory allows, a run is judged while the next
/// one runs, and the device recognises results with the same bits as an earlier correct one. Device
/// failures are thrown as Error. Not thread-safe.
class Validator {
 public:
  /// Device bytes with all data sets resident, and with one set at a time (uploaded for each run).
  static std::int64_t resident_bytes(const Problem& problem);
  static std::int64_t minimal_bytes(const Problem& problem);

  /// `spare_bytes`: further device memory for stored correct results; used when resident. Throws
  /// Error(out_of_memory).
  Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
            bool resident, std::int64_t spare_bytes = 0);

  Verdict validate(const Enqueue& enqueue);

  /// Launches for `seconds` on two operand sets alternately, at least once on each. wrong_result
  /// unless every C has the bits of the set's first one, which the reference judges. Finds races
  /// that rarely change the result. The sets are bounded and exact data. Without memory for both,
  /// they are bounded data with alpha 1 and -1; the reference does not judge the second. Call after
  /// validate(). Adds the number of launches to `launches`.
  Verdict observe(const Enqueue& enqueue, double seconds, std::int64_t& launches);

  /// Frees the memory of `spare_bytes`; true if there was any. Later results are compared on the
  /// host.
  bool give_back_spare();

  /// A call on the bounded data, for timing when memory allows no other buffers.
  Call timing_call();

 private:
  struct Inputs {
    DeviceMatrix a, b, c0;
    std::optional<std::uint64_t> a_sum, b_sum;  // checksums as uploaded; none: compare on the host
  };
  // A run: a data set with a pair of scalars.
  struct Run {
    DataSet set;
    int index;
  };
  void load_scalars();
  void use_spare(std::int64_t bytes);
  void reload();
  void load(DataSet set);
  void upload_inputs(DataSet set);
  std::optional<std::uint64_t> checksum_of(const DeviceMatrix& matrix);
  Inputs& inputs(DataSet set) { return inputs_[resident_ ? static_cast<std::size_t>(set) : 0]; }
  // Runs alternate between the C matrices.
  const DeviceMatrix& c_of(std::size_t run) const { return c_[run % c_.size()]; }
  Call call_for(const Run& run, std::size_t number);
  void prepare_c(const Run& run, std::size_t number);
  void start(const Enqueue& enqueue, std::size_t number);
  bool judge(std::size_t number, Verdict& verdict);
  std::vector<Call> calls_in_turns();
  bool launch_first(const Enqueue& enqueue, const Call& call, std::size_t set, Verdict& verdict);
  bool compare(const Run& run, const DeviceMatrix& c, const ExtraOperands& operands,
               Judgement& judgement, Verdict& verdict);
  bool compare_operands(const Run& run, const ExtraOperands& operands, Judgement& judgement,
                        Verdict& verdict);
  bool inputs_unchanged(DataSet set, Verdict& verdict);
  // Of the run that writes c_of(run).
  const ExtraOperands& operands_of(std::size_t run) const {
    return operands_[run % operands_.size()];
  }

  Device& device_;
  Stream stream_;
  OwnedStream copies_;  // downloads while stream_ computes
  std::shared_ptr<const Reference> reference_;
  bool resident_;
  std::vector<Run> runs_;       // in order: two of each set
  std::vector<Inputs> inputs_;  // one per data set, or a single one that holds set `loaded_`
  int loaded_ = -1;
  std::vector<DeviceMatrix> c_;  // two where memory allows: one is judged during the next run
  std::vector<ExtraOperands> operands_;       // by index in c_
  std::vector<std::unique_ptr<Event>> done_;  // by index in c_: end of the run that writes it
  DeviceBuffer scalars_;                      // alpha and beta of the bounded data
  DeviceBuffer sum_;                          // of checksum_of()
  Staging staging_;
  std::optional<KnownResults> known_;  // empty without memory
};

}  // namespace tilewise
