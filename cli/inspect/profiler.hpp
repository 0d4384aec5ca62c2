#pragma once
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"

/// Hardware counters of kernels, read by NVIDIA's ncu.
namespace tilewise::cli {

/// A share of 1 is the unit's peak.
enum class CounterUnit { share, microseconds, bytes, count, ratio };

/// An ncu counter of the tables.
struct Counter {
  const char* metric;  ///< ncu's name
  const char* key;     ///< in JSON
  const char* title;   ///< in tables
  CounterUnit unit;
};
/// The counters for a GPU of this capability, in table order. Stall reasons are last.
std::vector<Counter> counters_for(const Target& target);
bool is_stall(const Counter& counter);

/// One launch of a kernel: values in the order of the counters; NaN where ncu has no value.
struct ProfiledLaunch {
  std::string kernel;
  std::vector<double> values;
};

/// The path of ncu: the named program or folder; otherwise on PATH, in CUDA_HOME, CUDA_PATH,
/// /usr/local/cuda, or the newest in /opt/nvidia/nsight-compute. Throws Error(unsupported) where
/// there is none.
std::string find_profiler(const std::string& named);

struct ProfileRequest {
  std::vector<std::string> command;  ///< launches the kernels
  std::vector<std::string> kernels;  ///< names; others are not counted
  std::size_t skip = 0;              ///< first launches of these kernels, which warm up
  std::size_t count = 0;             ///< later launches that are counted
};
/// Runs the command under ncu. Throws Error(device) where counters are not permitted, and Error(io)
/// with the message of ncu or of the command where it failed.
std::vector<ProfiledLaunch> profile(const std::string& ncu, const ProfileRequest& request,
                                    const std::vector<Counter>& counters);

/// The launches in the output of `ncu --csv --page raw`; ignores other lines. Throws Error(io)
/// without a table.
std::vector<ProfiledLaunch> read_profile(const std::string& text,
                                         const std::vector<Counter>& counters);

}  // namespace tilewise::cli
