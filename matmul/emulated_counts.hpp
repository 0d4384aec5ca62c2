#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/device.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// How many products of the mode `emulated` ran. The device adds to the numbers when a product
/// runs, in a replayed graph too.
struct EmulatedCounts {
  std::uint64_t emulated = 0;
  std::uint64_t native = 0;  ///< products whose error the certificate did not bound
};

/// The counts of a Matmul's problems. They lie in page-locked host memory, so that reading them
/// waits for nothing. Thread-safe.
class CountedProblems {
 public:
  explicit CountedProblems(Device& device) : device_(device) {}

  /// Where products of a problem are counted, at every alignment. The address stays valid as long
  /// as this object. Null where products are not counted: there is no memory, or kMost problems
  /// are.
  EmulatedCounts* counts_of(const Problem& problem);
  /// What has run so far.
  EmulatedCounts read(const Problem& problem);

 private:
  static constexpr std::size_t kOfBlock = 256;  // counts in one allocation
  static constexpr std::size_t kMost = 4096;    // a graph may use an address for ever

  Device& device_;
  std::mutex mutex_;  ///< guards the next two
  std::vector<HostBuffer> blocks_;
  std::unordered_map<Problem, EmulatedCounts*> places_;
};

}  // namespace tilewise
