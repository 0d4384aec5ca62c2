#pragma once
#include <string>
#include <vector>

#include "cli/common/output.hpp"
#include "device/device.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise::cli {

/// A device that --device chose, a GPU or the CPU: its name for opening it, and its facts.
inline constexpr int kHostIndex = -1;
struct Gpu {
  int index = 0;      ///< kHostIndex: the CPU
  std::string which;  ///< for open_device() and the worker
  DeviceInfo info;
  std::string why_host = {};       ///< for the CPU chosen by "auto": why no GPU was
  std::vector<Gpu> left_out = {};  ///< alike ones that choose_gpus() left out in favour of this one
};

/// "auto" (the first, else the CPU), an index, a UUID, "host" or "host:sm_90", a list of these but
/// auto ("0,1"), or "all" GPUs. With `one_of_each_kind` the first of those with the same gpu_key():
/// alike GPUs share their records. Creates no context. Throws Error(invalid_argument) for a
/// malformed name and for a GPU that is twice in a list, Error(no_device) for a device that is not
/// there.
std::vector<Gpu> choose_gpus(const std::string& device, bool one_of_each_kind);
/// Devices with the same gpu_key() together, each in the order given.
std::vector<std::vector<Gpu>> group_alike(const std::vector<Gpu>& gpus);

/// Prints a note for each GPU that represents alike ones, with their number and the reason.
void print_left_out(const std::vector<Gpu>& gpus, const Output& output);
/// The same as JSON: [{"index", "uuid", "gpu", "used": the index of the GPU used instead}].
std::string left_out_json(const std::vector<Gpu>& gpus);

/// The name that --device takes: "0", "host", "host:sm_90a".
std::string device_name(const Gpu& gpu);

/// The targets of "sm_90,sm_80" or "all".
std::vector<Target> parse_targets(const std::string& text);

/// The least device memory for measuring a problem: A, B and C with their guards. With more memory,
/// buffers are rotated (docs/measuring.md).
double device_bytes_needed(const Problem& problem);
/// Bytes of host memory for its test data and reference.
double host_bytes_needed(const Problem& problem);
/// Bytes of host memory for measuring it on a device. The CPU keeps the operands there, too, and
/// its compilers take more than NVRTC.
double host_bytes_needed(const Problem& problem, const DeviceInfo& info);
/// Of host memory that this process may use (usable_memory()), now; infinite when not known.
double host_bytes_available();
/// Compiler threads on the CPU: at most half of the cores, and as many as the memory holds beside
/// the largest of the problems.
int cpu_compile_threads(const std::vector<Problem>& problems);
/// Throw Error(out_of_memory) with both numbers: before a device is chosen, and for a device.
void check_host_memory(const Problem& problem);
void check_host_memory(const Problem& problem, const DeviceInfo& info);
void check_device_memory(const Problem& problem, const DeviceInfo& info,
                         const DeviceStatus& status);

/// Why measurements on this GPU are doubtful now: other processes, throttling, load. May be empty.
std::vector<std::string> doubts(const DeviceStatus& status);

}  // namespace tilewise::cli
