#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// What the compiler said a kernel uses.
struct ResourceUsage {
  int registers = 0;    ///< per thread
  int spill_bytes = 0;  ///< spill stores + loads, bytes per thread
  int static_shared_bytes = 0;
  int stack_bytes = 0;
  bool operator==(const ResourceUsage&) const = default;
};

/// A compiled binary (cubin) with the log it came with. `source_hash` says whether to recompile,
/// `launch_revision` whether it may be launched by this version of the program.
struct Image {
  KernelSpec kernel;
  Target target;
  std::string source_hash;
  std::string launch_revision;
  std::vector<std::uint8_t> binary;
  std::string log;
  ResourceUsage usage;
  double compile_ms = 0;
  bool operator==(const Image&) const = default;
};

/// Threads x registers x shared memory -> resident blocks per multiprocessor, and what limits it.
struct Occupancy {
  int blocks = 0;
  std::string limit;  ///< "registers", "shared memory", "threads", "blocks"
};

/// Resident blocks per multiprocessor for a step on a device, by the counting rules of NVIDIA's
/// occupancy calculator (registers are handed out per warp in units of 256).
Occupancy occupancy_of(const LaunchStep& step, const ResourceUsage& usage, const DeviceInfo& info);

}  // namespace tilewise
