#pragma once
#include <string>
#include <vector>

#include "cli/common/output.hpp"
#include "device/device.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise::cli {

/// A device that --device chose, a GPU or the CPU: the name that opens it, and its facts.
inline constexpr int kHostIndex = -1;
struct Gpu {
  int index = 0;      ///< kHostIndex: the CPU
  std::string which;  ///< for open_device() and the worker
  DeviceInfo info;
  std::string why_host = {};       ///< reason why "auto" chose the CPU and no GPU
  std::vector<Gpu> left_out = {};  ///< identical GPUs that choose_gpus() replaced by this one
};

/// The devices of a name: "auto" (the first GPU, otherwise the CPU), an index, a UUID, "host" or
/// "host:sm_90", a list of these without auto ("0,1"), or "all" GPUs. With `one_of_each_kind`, only
/// the first of the GPUs with the same gpu_key(): identical GPUs share their records. Creates no
/// context. Throws Error(invalid_argument) for a malformed name or a GPU that occurs twice in a
/// list, Error(no_device) for an absent device.
std::vector<Gpu> choose_gpus(const std::string& device, bool one_of_each_kind);
/// Groups devices by gpu_key(); each group keeps the given order.
std::vector<std::vector<Gpu>> group_identical(const std::vector<Gpu>& gpus);

/// Prints a note for each GPU that replaces identical ones, with their number and the reason.
void print_left_out(const std::vector<Gpu>& gpus, const Output& output);
/// The same as JSON: [{"index", "uuid", "gpu", "used"}]. "used" is the index of the GPU used
/// instead.
Json left_out_json(const std::vector<Gpu>& gpus);

/// The name that --device takes: "0", "host", "host:sm_90a".
std::string device_name(const Gpu& gpu);

/// The targets of "sm_90,sm_80" or "all".
std::vector<Target> parse_targets(const std::string& text);

/// The least device memory (bytes) for measuring a problem: A, B and C with their guards. More
/// memory permits rotating buffers (docs/measuring.md).
double device_bytes_needed(const Problem& problem);
/// Bytes of host memory for its test data and reference.
double host_bytes_needed(const Problem& problem);
/// Bytes of host memory for measuring it on a device. The CPU also keeps the operands there, and
/// its compilers take more than NVRTC.
double host_bytes_needed(const Problem& problem, const DeviceInfo& info);
/// Bytes of host memory that this process may use now (usable_memory()); infinite when not known.
double host_bytes_available();
/// Compiler threads on the CPU: at most half of the cores, and no more than fit into memory next to
/// the largest problem.
int cpu_compile_threads(const std::vector<Problem>& problems);
/// Throw Error(out_of_memory) with both numbers: before a device is chosen, and for a device.
void check_host_memory(const Problem& problem);
void check_host_memory(const Problem& problem, const DeviceInfo& info);
void check_device_memory(const Problem& problem, const DeviceInfo& info,
                         const DeviceStatus& status);

/// Reasons to doubt measurements on this GPU now: other processes, throttling, load. May be empty.
std::vector<std::string> doubts(const DeviceStatus& status);

}  // namespace tilewise::cli
