#pragma once
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilewise {

/// What hardware can do, by name. Constraints ask for these, never for a capability number.
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

/// What to compile for: compute capability and, where the architecture-specific instructions are
/// wanted, the `a` suffix. Text form "sm_90a"; "host:sm_90a" is the CPU that emulates it.
struct Target {
  int major = 0, minor = 0;
  bool specific = false;  ///< the 'a' suffix
  bool host = false;      ///< the CPU, with this capability's features
  auto operator<=>(const Target&) const = default;
};
std::string to_string(const Target& target);
/// Accepts sm_90, sm_90a, compute_90, 90, 9.0, each of them after "host:", and "host" alone, which
/// is default_host_target(). Throws Error(invalid_argument).
Target parse_target(std::string_view text);
/// The best target for a capability: with the suffix `a` from 9.0 on, as every one has it there.
Target best_target(int major, int minor);
/// The same of a target's capability; on the CPU what it emulates.
Target best_target(const Target& named);
/// What "host" emulates: the newest capability whose instructions the CPU executor has all of.
Target default_host_target();
Features features_of(const Target& target);
/// The targets this project compiles and tests for: sm_75 80 86 89 90a 100 120.
const std::vector<Target>& known_targets();

/// What a device states about itself. A plain value: constraints and plans are functions of it, so
/// everything about a GPU can be tested without one.
struct DeviceInfo {
  /// "NVIDIA H200"; "CPU: Intel(R) Xeon(R) Processor"; "sm_90 (nominal)" when compiling without a
  /// device.
  std::string name;
  std::string uuid;  ///< "GPU-xxxxxxxx-...", empty when nominal
  Target target;
  Features features;
  int multiprocessors = 0;
  int clock_khz = 0;         ///< highest SM clock
  int memory_clock_khz = 0;  ///< highest memory clock
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int shared_per_block = 0;  ///< bytes a block can get with opt-in
  int shared_per_multiprocessor = 0;
  int shared_reserved_per_block = 0;
  int registers_per_multiprocessor = 65536;
  int registers_per_block = 65536;
  int threads_per_multiprocessor = 0;
  int threads_per_block = 1024;
  int blocks_per_multiprocessor = 0;
  int fp32_lanes = 0;  ///< fp32 multiply-adds a multiprocessor starts per clock
  bool operator==(const DeviceInfo&) const = default;
};

/// What a GPU's records are keyed by: "NVIDIA H200|9.0|132". Driver, clocks and host are facts of a
/// record, not of the key. The CPU's read "CPU: Intel(R) Xeon(R) Processor|host:8.0|16".
std::string gpu_key(const DeviceInfo& info);

/// Typical facts of a capability (shared memory, threads, lanes from NVIDIA's programming guide),
/// for compiling and testing without a device. Throws Error(unsupported) below 7.5.
DeviceInfo nominal_device(const Target& target);

/// Peak rate = multiprocessors x lanes x 2 x clock (FLOP/s). Bandwidth = bus width x memory clock x
/// 2 (bytes/s). 0 when the device does not state the clocks.
double peak_flops(const DeviceInfo& info);
double peak_bandwidth(const DeviceInfo& info);
/// The n of the largest square f32 product (three n x n matrices) that fits in `free_bytes`.
std::int64_t largest_square(std::int64_t free_bytes, int element_bytes);

}  // namespace tilewise
