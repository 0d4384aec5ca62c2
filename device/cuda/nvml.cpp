#include "device/cuda/nvml.hpp"

#include <algorithm>
#include <array>

#include "device/cuda/library.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cuda {
namespace {

// The part of NVML's interface in use; no wheel that the build needs has its header.
using NvmlDevice = void*;
using NvmlResult = int;
constexpr NvmlResult kSuccess = 0;
constexpr NvmlResult kInsufficientSize = 7;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
struct NvmlUtilization {
  unsigned gpu, memory;
};

/// NVML's functions, null where the library lacks one. NVML stays initialised until the process
/// ends: nvmlInit takes milliseconds.
struct Nvml {
  Library library;
  NvmlResult (*init)() = nullptr;
  NvmlResult (*device_count)(unsigned*) = nullptr;
  NvmlResult (*driver_version)(char*, unsigned) = nullptr;
  NvmlResult (*handle_by_uuid)(const char*, NvmlDevice*) = nullptr;
  NvmlResult (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlResult (*power)(NvmlDevice, unsigned*) = nullptr;
  NvmlResult (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  NvmlResult (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlResult (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlResult (*throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlResult (*energy)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlResult (*processes)(NvmlDevice, unsigned*, void*) = nullptr;
  bool ready = false;

  Nvml() {
    std::string why;
    library = Library::open("libnvidia-ml.so.1", why);
    if (!library.get(init, "nvmlInit_v2")) return;
    library.get(device_count, "nvmlDeviceGetCount_v2");
    library.get(driver_version, "nvmlSystemGetDriverVersion");
    library.get(handle_by_uuid, "nvmlDeviceGetHandleByUUID");
    library.get(clock, "nvmlDeviceGetClockInfo");
    library.get(power, "nvmlDeviceGetPowerUsage");
    library.get(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    library.get(temperature, "nvmlDeviceGetTemperature");
    library.get(utilization, "nvmlDeviceGetUtilizationRates");
    library.get(energy, "nvmlDeviceGetTotalEnergyConsumption");
    // The first name exists in driver 535 and later.
    if (!library.get(throttle_reasons, "nvmlDeviceGetCurrentClocksEventReasons")) {
      library.get(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
    library.get(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    ready = init() == kSuccess;
  }
};

const Nvml& nvml() {
  static const Nvml& instance = *new Nvml();
  return instance;
}

/// A getter's value; 0 where the getter is missing or fails.
template <typename Getter, typename... Arguments>
double ask(Getter getter, Arguments... arguments) {
  unsigned value = 0;
  return getter && getter(arguments..., &value) == kSuccess ? value : 0.0;
}

/// The device with this UUID; null when not known.
NvmlDevice device_of(const Nvml& monitor, const std::string& uuid) {
  NvmlDevice device = nullptr;
  const bool found = monitor.ready && monitor.handle_by_uuid &&
                     monitor.handle_by_uuid(uuid.c_str(), &device) == kSuccess;
  return found ? device : nullptr;
}

/// The number of compute processes, -1 when not known. With a buffer of size 0, NVML returns the
/// count.
int process_count(const Nvml& monitor, NvmlDevice device) {
  unsigned count = 0;
  if (!monitor.processes) return -1;
  const NvmlResult result = monitor.processes(device, &count, nullptr);
  return result == kSuccess || result == kInsufficientSize ? static_cast<int>(count) : -1;
}

}  // namespace

int nvml_device_count() {
  const Nvml& monitor = nvml();
  unsigned count = 0;
  if (!monitor.ready || !monitor.device_count || monitor.device_count(&count) != kSuccess)
    return -1;
  return static_cast<int>(count);
}

std::string nvml_driver_version() {
  const Nvml& monitor = nvml();
  std::array<char, 96> text{};
  if (!monitor.ready || !monitor.driver_version ||
      monitor.driver_version(text.data(), text.size() - 1) != kSuccess) {
    return "";
  }
  return text.data();
}

std::optional<double> nvml_energy_mj(const std::string& uuid) {
  const Nvml& monitor = nvml();
  const NvmlDevice device = device_of(monitor, uuid);
  unsigned long long mj = 0;
  if (!device || !monitor.energy || monitor.energy(device, &mj) != kSuccess) return {};
  return static_cast<double>(mj);
}

void nvml_fill_status(const std::string& uuid, bool own_context, DeviceStatus& status) {
  const Nvml& monitor = nvml();
  const NvmlDevice device = device_of(monitor, uuid);
  if (!device) return;
  status.sm_clock_mhz = ask(monitor.clock, device, kClockSm);
  status.memory_clock_mhz = ask(monitor.clock, device, kClockMemory);
  status.power_w = ask(monitor.power, device) / 1000;
  status.power_limit_w = ask(monitor.power_limit, device) / 1000;
  status.temperature_c = ask(monitor.temperature, device, kTemperatureGpu);
  NvmlUtilization utilization{};
  if (monitor.utilization && monitor.utilization(device, &utilization) == kSuccess) {
    status.utilization_percent = static_cast<int>(utilization.gpu);
  }
  unsigned long long reasons = 0;
  if (monitor.throttle_reasons && monitor.throttle_reasons(device, &reasons) == kSuccess) {
    status.throttle = throttle_words(reasons);
  }
  // Uses the count, since NVML's process ids differ from ours in a container.
  const int processes = process_count(monitor, device);
  status.other_processes = processes < 0 ? -1 : std::max(0, processes - (own_context ? 1 : 0));
}

std::string throttle_words(unsigned long long reasons) {
  // Omits idle (0x1) and the display clock setting (0x100), which slow no running kernel.
  constexpr std::pair<unsigned long long, const char*> kReasons[] = {
      {0x2, "application clocks"}, {0x4, "power cap"}, {0x8, "hardware slowdown"},
      {0x10, "sync boost"},        {0x20, "thermal"},  {0x40, "hardware thermal"},
      {0x80, "power brake"}};
  std::vector<std::string> words;
  for (const auto& [bit, name] : kReasons) {
    if (reasons & bit) words.push_back(name);
  }
  return join(words);
}

}  // namespace tilewise::cuda
