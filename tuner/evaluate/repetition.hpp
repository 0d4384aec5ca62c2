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

/// What repeated launches showed. Every launch is compared.
struct Repeated {
  std::int64_t launches = 0;
  std::int64_t wrong = 0;        ///< launches after which C had other bits than expected
  std::int64_t first_wrong = 0;  ///< the number of the first of them, from 1
  std::size_t wrong_set = 0;     ///< its operand set
};

/// How long launches are repeated.
struct RepetitionLimits {
  double seconds = 0;         ///< at least
  std::int64_t launches = 0;  ///< at least
  double most_seconds = 1e9;  ///< whatever the others say; once on each set all the same
  bool go_on = false;         ///< after a wrong launch
};

/// Launches a product again and again on operand sets in turns, all into one C, and compares the
/// checksum of C and what surrounds it after every launch. Between two launches C holds the result
/// of another set, so an element that a launch does not write is found. Checksums are made on the
/// device and read about every 10 ms; where it cannot make them, each C is copied to the host in
/// pieces. Not thread-safe.
class Repetition {
 public:
  /// `calls`: one for each operand set, with beta 0, which differ in the result. `bytes`: of the
  /// range that begins at `from` and includes C.
  Repetition(Device& device, Stream stream, std::vector<Call> calls, const void* from,
             std::int64_t bytes);

  /// What C holds now is expected after each launch on this operand set. Waits for the stream.
  void expect(std::size_t set);
  Repeated run(const Enqueue& enqueue, const RepetitionLimits& limits);

  const std::vector<Call>& calls() const { return calls_; }

 private:
  void launch(const Enqueue& enqueue, std::int64_t first, std::int64_t count);
  std::uint64_t sum_on_host();
  void compare(std::int64_t number, std::uint64_t sum, Repeated& result) const;
  void repeat_on_host(const Enqueue& enqueue, Repeated& result);

  Device& device_;
  Stream stream_;
  std::vector<Call> calls_;
  const void* from_;
  std::int64_t bytes_;
  std::vector<std::uint64_t> expected_;
  DeviceBuffer sums_;      ///< of a round, a 64-bit word for each launch
  HostBuffer sums_here_;   ///< their copy; without sums on the device: of a piece of C
  bool on_device_ = true;  ///< the device makes checksums
};

}  // namespace tilewise
