#pragma once
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// Features of the hardware. Constraints test these, never a capability number.
enum class Feature : std::uint8_t {
  cp_async,             ///< asynchronous copies global -> shared (8.0)
  ldmatrix,             ///< 7.5
  mma_f16,              ///< tensor cores for f16 (7.5)
  mma_i8,               ///< 7.5
  mma_bf16,             ///< 8.0
  mma_tf32,             ///< 8.0
  mma_f64,              ///< 8.0, 9.0, 10.0
  mma_fp8,              ///< 8.9
  mbarrier,             ///< 8.0
  tma,                  ///< tensor memory accelerator (9.0)
  clusters,             ///< thread block clusters, distributed shared memory (9.0)
  programmatic_launch,  ///< griddepcontrol (9.0)
  wgmma,                ///< 9.0 with architecture-specific target (sm_90a)
  count_,
};
std::string_view to_string(Feature feature);

using Features = std::bitset<static_cast<std::size_t>(Feature::count_)>;
inline bool has(const Features& f, Feature x) { return f.test(static_cast<std::size_t>(x)); }

/// A compile target: compute capability and, for the architecture-specific instructions, the `a`
/// suffix. Text form "sm_90a"; "host:sm_90a" is the CPU that emulates it.
struct Target {
  int major = 0, minor = 0;
  bool specific = false;  ///< the 'a' suffix
  bool host = false;      ///< the CPU, emulating this capability
  auto operator<=>(const Target&) const = default;
};
std::string to_string(const Target& target);
/// Accepts sm_90, sm_90a, compute_90, 90 and 9.0, each optionally after "host:", and "host" alone
/// (default_host_target()). Throws Error(invalid_argument).
Target parse_target(std::string_view text);
/// The best target of a capability: with the suffix `a` from 9.0 on.
Target best_target(int major, int minor);
/// The best target of a target's capability; on the CPU, of the emulated capability.
Target best_target(const Target& named);
/// The target of "host": the newest capability whose instructions the CPU executor fully supports.
Target default_host_target();
Features features_of(const Target& target);
/// The targets this project compiles and tests for: sm_75 80 86 89 90a 100 120.
const std::vector<Target>& known_targets();

/// A device's properties. A plain value: constraints and plans are functions of it, and their tests
/// need no GPU.
struct DeviceInfo {
  /// "NVIDIA H200"; "CPU: Intel(R) Xeon(R) Processor"; "sm_90 (nominal)" when compiling without a
  /// device.
  std::string name;
  std::string uuid;  ///< "GPU-xxxxxxxx-...", empty when nominal
  Target target;
  Features features;
  int multiprocessors = 0;
  int clock_khz = 0;         ///< maximum SM clock
  int memory_clock_khz = 0;  ///< maximum memory clock
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int shared_per_block = 0;  ///< bytes, with opt-in
  int shared_per_multiprocessor = 0;
  int shared_reserved_per_block = 0;
  int registers_per_multiprocessor = 65536;
  int registers_per_block = 65536;
  int threads_per_multiprocessor = 0;
  int threads_per_block = 1024;
  int blocks_per_multiprocessor = 0;
  int fp32_lanes = 0;  ///< fp32 multiply-adds per multiprocessor and clock
  bool operator==(const DeviceInfo&) const = default;
};

/// The key of a GPU's records: "NVIDIA H200|9.0|132"; for the CPU: "CPU: Intel(R) Xeon(R)
/// Processor|host:8.0|16". Driver, clocks and host name belong to a record, not to the key.
std::string gpu_key(const DeviceInfo& info);

/// Typical properties of a capability (shared memory, threads and lanes from NVIDIA's programming
/// guide), for compiling and testing without a device. Throws Error(unsupported) below 7.5.
DeviceInfo nominal_device(const Target& target);

/// The facts of a gpu_key() ("NVIDIA H200|9.0|132"), typical for its capability, for use without
/// that GPU. Throws Error(invalid_argument).
DeviceInfo nominal_from_key(const std::string& key);

/// Peak rate = multiprocessors x lanes x 2 x clock (FLOP/s). Bandwidth = bus width x memory clock x
/// 2 (bytes/s). 0 when the clocks are not known.
double peak_flops(const DeviceInfo& info);
double peak_bandwidth(const DeviceInfo& info);
/// The n of the largest square f32 product (three n x n matrices) that fits in `free_bytes`.
std::int64_t largest_square(std::int64_t free_bytes, int element_bytes);

}  // namespace tilewise
