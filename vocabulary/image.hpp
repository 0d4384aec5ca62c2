#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A kernel's resources, as reported by the compiler.
struct ResourceUsage {
  int registers = 0;    ///< per thread
  int spill_bytes = 0;  ///< spill stores + loads, bytes per thread
  int static_shared_bytes = 0;
  int stack_bytes = 0;
  bool operator==(const ResourceUsage&) const = default;
};

/// A compiled binary (cubin) with its log. A different `source_hash` requires a new compile;
/// `launch_revision` determines whether this version of the program may launch it.
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

/// Resident blocks per multiprocessor, and the resource that limits them.
struct Occupancy {
  int blocks = 0;
  std::string limit;  ///< "registers", "shared memory", "threads", "blocks"
};

/// The occupancy of a step on a device, by the rules of NVIDIA's occupancy calculator (registers
/// are allocated per warp in units of 256).
Occupancy occupancy_of(const LaunchStep& step, const ResourceUsage& usage, const DeviceInfo& info);

}  // namespace tilewise
