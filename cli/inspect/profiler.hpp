#pragma once
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"

/// Hardware counters of kernels, read by NVIDIA's ncu.
namespace tilewise::cli {

/// Of a share 1 is the unit's peak.
enum class CounterUnit { share, microseconds, bytes, count, ratio };

/// A counter of ncu that is shown.
struct Counter {
  const char* metric;  ///< ncu's name
  const char* key;     ///< in JSON
  const char* title;   ///< in tables
  CounterUnit unit;
};
/// What is read on a GPU of this capability, in the order of tables. Stall reasons are last.
std::vector<Counter> counters_for(const Target& target);
bool is_stall(const Counter& counter);

/// One launch of a kernel: values in the order of the counters; NaN where ncu has none.
struct ProfiledLaunch {
  std::string kernel;
  std::vector<double> values;
};

/// ncu: the program or its folder as named; else on PATH, in CUDA_HOME, CUDA_PATH, /usr/local/cuda,
/// or the newest in /opt/nvidia/nsight-compute. Throws Error(unsupported) where there is none.
std::string find_profiler(const std::string& named);

struct ProfileRequest {
  std::vector<std::string> command;  ///< launches the kernels
  std::vector<std::string> kernels;  ///< names; others are not counted
  std::size_t skip = 0;              ///< launches of them that warm up
  std::size_t count = 0;             ///< launches after these that are counted
};
/// Runs the command under ncu. Throws Error(device) where counters are not permitted, and
/// Error(io) with the words of ncu or of the command where it failed.
std::vector<ProfiledLaunch> profile(const std::string& ncu, const ProfileRequest& request,
                                    const std::vector<Counter>& counters);

/// The launches in what `ncu --csv --page raw` wrote, other lines aside. Throws Error(io) when
/// there is no table in it.
std::vector<ProfiledLaunch> read_profile(const std::string& text,
                                         const std::vector<Counter>& counters);

}  // namespace tilewise::cli
