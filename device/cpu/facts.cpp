#include "device/cpu/facts.hpp"

#include <unistd.h>

#include <fstream>

#include "device/cpu/cpu.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/machine_limits.hpp"

namespace tilewise::cpu {
namespace {

/// The value of the first line "name : value" of a file below /proc.
std::string proc_value(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != line.npos && begin != line.npos) return line.substr(begin);
  }
  return "";
}

std::string processor_name() {
  for (const char* field : {"model name", "Model", "Hardware"})
    if (std::string name = proc_value("/proc/cpuinfo", field); !name.empty()) {
      for (char& c : name)
        if (c == '|') c = '/';  // '|' separates the parts of a gpu_key
      return name;
    }
  return std::string(processor());
}

int clock_khz() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  int khz = 0;
  if (file >> khz) return khz;
  const std::string mhz = proc_value("/proc/cpuinfo", "cpu MHz");
  return static_cast<int>(number_in<double>(mhz).value_or(0) * 1000);
}

std::int64_t cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return 0;
}

}  // namespace

std::string_view processor() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide ? "x86-64 avx2 fma" : "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

bool runs_here(std::string_view cpu) {
  return cpu == processor() || (cpu == "x86-64" && processor().starts_with(cpu));
}

std::string host_name(const std::string& which) {
  const std::string name = which.starts_with("cpu") ? "host" + which.substr(3) : which;
  return name == "host" || name.starts_with("host:") ? name : "";
}

DeviceInfo device_info(const std::string& which) {
  const std::string name = host_name(which);
  if (name.empty())
    throw Error(ErrorKind::invalid_argument,
                "'" + which + "' does not name the CPU; write host, host:sm_90 or cpu");
  const Target named = parse_target(name);
  // Kernels are made for the limits of a capability (threads, shared memory).
  DeviceInfo info = nominal_device(name == "host" ? named : best_target(named));
  info.name = "CPU: " + processor_name();
  info.uuid = "";
  // The machine's count: the key of its records must not depend on an affinity or a quota.
  info.multiprocessors = machine_cores();
  info.clock_khz = clock_khz();
  info.memory_clock_khz = 0;  // not known
  info.memory_bus_bits = 0;
  info.memory_bytes = usable_memory().total;
  info.l2_bytes = cache_bytes();
  // AVX2: two units of eight floats. Otherwise at most four, with separate multiplies and adds.
  info.fp32_lanes = processor() == "x86-64 avx2 fma" ? 16 : 4;
  return info;
}

}  // namespace tilewise::cpu
