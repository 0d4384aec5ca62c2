#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "tilewise/call.hpp"
#include "tuner/evaluate/placement.hpp"

namespace tilewise {

/// Enqueues one product.
using Enqueue = std::function<void(const Call&)>;

/// The result of repeated launches. Every launch is compared.
struct Repeated {
  std::int64_t launches = 0;
  std::int64_t wrong = 0;        ///< launches with other bits in C than expected
  std::int64_t first_wrong = 0;  ///< number of the first wrong launch, from 1
  std::size_t wrong_set = 0;     ///< its operand set
};

/// Limits of the repetitions.
struct RepetitionLimits {
  double seconds = 0;         ///< minimum
  std::int64_t launches = 0;  ///< minimum
  double most_seconds = 1e9;  ///< maximum, above the minima; every set is launched once in any case
  bool go_on = false;         ///< continue after a wrong launch
};

/// Launches a product repeatedly on alternating operand sets, all into one C. Compares the checksum
/// of what is written, C and its surroundings, after every launch. Between two launches C holds the
/// result of another set, which detects an element that a launch does not write. Checksums are made
/// on the device and read about every 10 ms. Without device checksums, each C is copied to the host
/// in pieces. Not thread-safe.
class Repetition {
 public:
  /// A range of device memory.
  struct Range {
    const void* from = nullptr;
    std::int64_t bytes = 0;
  };
  /// `calls`: one for each operand set, with beta 0 and different results. `written`: the ranges
  /// with C and what an epilogue writes besides C.
  Repetition(Device& device, Stream stream, std::vector<Call> calls, std::vector<Range> written);

  /// Makes the current C the expected result of this operand set. Waits for the stream.
  void expect(std::size_t set);
  Repeated run(const Enqueue& enqueue, const RepetitionLimits& limits);

  const std::vector<Call>& calls() const { return calls_; }

 private:
  void launch(const Enqueue& enqueue, std::int64_t first, std::int64_t count);
  bool add_checksums(void* sum);
  std::uint64_t sum_on_host();
  void compare(std::int64_t number, std::uint64_t sum, Repeated& result) const;
  void repeat_on_host(const Enqueue& enqueue, Repeated& result);

  Device& device_;
  Stream stream_;
  std::vector<Call> calls_;
  std::vector<Range> written_;
  std::vector<std::uint64_t> expected_;
  DeviceBuffer sums_;      ///< of a round: a 64-bit word per launch
  HostBuffer sums_here_;   ///< their copy; without device checksums, a piece of C
  bool on_device_ = true;  ///< the device makes checksums
};

}  // namespace tilewise
