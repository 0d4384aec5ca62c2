#pragma once
#include <memory>
#include <span>
#include <vector>

#include "tuner/evaluate/evaluator.hpp"
#include "tuner/evaluate/extra_operands.hpp"
#include "tuner/evaluate/placement.hpp"
#include "tuner/evaluate/validator.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// The buffers that timed launches rotate over: sets of A, B, C and the epilogue's operands with
/// the bounded data, enough to exceed twice the L2 where memory allows.
class TimingBuffers {
 public:
  /// Bytes of one set.
  static std::int64_t set_bytes(const Problem& problem);
  /// The number of sets that makes products cold: enough to exceed twice the L2, at most 512.
  static std::int64_t sets_wanted(const Problem& problem, const DeviceInfo& info, bool cold);

  /// Takes fewer sets when memory runs out; throws Error(out_of_memory) when not even one fits.
  TimingBuffers(Device& device, Stream stream, const Reference& reference, std::int64_t sets);
  /// The caller's buffers as the only set.
  explicit TimingBuffers(const Call& borrowed) : calls_{borrowed} {}

  /// One call for each set; alpha = 1, beta = 0.
  const std::vector<Call>& calls() const { return calls_; }
  /// A set's C; null where the buffers are borrowed.
  const DeviceMatrix* c_of(std::size_t set) const {
    return sets_.empty() ? nullptr : &sets_[set].c;
  }

 private:
  struct Set {
    DeviceMatrix a, b, c;
    ExtraOperands operands;
  };
  std::vector<Set> sets_;
  std::vector<Call> calls_;
};

/// A contestant's measurement. `wrong_round` is the round (from 1) after which equal operands gave
/// different results; 0: none.
struct Raced {
  Measurement measurement;
  int wrong_round = 0;
};

/// Times products on a device by the rules of docs/measuring.md. Not thread-safe.
class Benchmark {
 public:
  /// `buffers` must outlive this. Allocates a scratch buffer of twice the L2 when one set is
  /// smaller and memory allows.
  Benchmark(Device& device, Stream stream, const Problem& problem, const TimingBuffers& buffers,
            const TimingOptions& options);

  /// With `best_us` > 0 a candidate far behind is timed briefly, and the measurement's method is
  /// "event" (one launch between events) or "graph, cut short" (one sample).
  Measurement measure(const Enqueue& enqueue, double best_us);

  /// Median of a few samples after some milliseconds of warm-up, in microseconds: for choosing
  /// among many products. `best_us` as for measure().
  double glance(const Enqueue& enqueue, double best_us);

  /// Measures contestants alternately for options.race_rounds rounds. A round's time is the mean
  /// over some 10 ms. After each round, C of every buffer set is compared for the first `own`
  /// contestants with C of the first set in the first round: all sets have equal operands. Without
  /// device checksums nothing is compared. `with_energy`: afterwards measures the energy per
  /// product of each contestant, for some 0.7 s. Rethrows the device's error for a failing
  /// contestant.
  std::vector<Raced> race(std::span<const Enqueue> contestants, std::size_t own,
                          bool with_energy = false);

 private:
  struct Timed {
    std::unique_ptr<LaunchGraph> graph;
    std::int64_t launches = 0;
    bool flush = false;  ///< flush the L2 before each run: the graph does not rotate over all sets
    double estimate_us = 0;
  };
  double estimate(const Enqueue& enqueue);
  Timed prepare(const Enqueue& enqueue, double estimate_us);
  double sample(Timed& timed);
  double round_microseconds(Timed& timed);
  std::vector<std::uint64_t> result_sums();
  double host_microseconds(const Enqueue& enqueue, double estimate_us, double patience);
  double energy_mj(Timed& timed, double us);
  void read_status(Measurement& measurement, Timed& timed);
  Measurement brief(double us, std::int64_t launches, bool cold, const char* method) const;
  void describe(Measurement& measurement, const Timed& timed) const;

  Device& device_;
  Stream stream_;
  const TimingBuffers& buffers_;
  TimingOptions options_;
  bool rotation_is_cold_;  ///< all sets together exceed twice the L2
  DeviceBuffer scratch_;
  std::unique_ptr<Event> start_, end_;
  DeviceBuffer sums_;  ///< for result_sums(): one 64-bit word per buffer set
};

}  // namespace tilewise
