#include "device/cuda/device_list.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "device/cuda/cuda.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/facts.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cuda {
namespace {

[[noreturn]] void no_such_device(const std::string& problem,
                                 const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    lines.push_back(std::to_string(i) + " (" + devices[i].name + ", " + devices[i].uuid + ")");
  }
  throw Error(ErrorKind::no_device, problem + "; there is " + join(lines) + visible_devices_text());
}

bool is_index(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return c >= '0' && c <= '9'; });
}

bool starts_with_ignoring_case(const std::string& text, const std::string& prefix) {
  const auto same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  return prefix.size() <= text.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), same);
}

int select_by_index(const std::string& which, const std::vector<DeviceInfo>& devices) {
  const auto index = number_in<std::size_t>(which);
  if (!index || *index >= devices.size()) no_such_device("no device " + which, devices);
  return static_cast<int>(*index);
}

int select_by_uuid(const std::string& which, const std::vector<DeviceInfo>& devices) {
  int found = -1;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!starts_with_ignoring_case(devices[i].uuid, which)) continue;
    if (found >= 0) no_such_device("\"" + which + "\" begins several UUIDs", devices);
    found = static_cast<int>(i);
  }
  if (found < 0) no_such_device("no device has a UUID that begins \"" + which + "\"", devices);
  return found;
}

}  // namespace

bool names_gpu(const std::string& which) {
  return which == "auto" || is_index(which) || starts_with_ignoring_case(which, "GPU-") ||
         starts_with_ignoring_case(which, "MIG-");
}

int select_device(const std::string& which, const std::vector<DeviceInfo>& devices) {
  if (which == "auto") return 0;
  if (is_index(which)) return select_by_index(which, devices);
  if (starts_with_ignoring_case(which, "GPU-") || starts_with_ignoring_case(which, "MIG-")) {
    return select_by_uuid(which, devices);
  }
  no_such_device("\"" + which + "\" names no device: write auto, an index or a UUID", devices);
}

std::string uuid_text(const unsigned char (&bytes)[16], const std::string& device_name) {
  constexpr char kDigits[] = "0123456789abcdef";
  // A MIG slice has its own UUID; only its name identifies it as a slice.
  std::string text = device_name.find(" MIG ") == std::string::npos ? "GPU-" : "MIG-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

int fp32_lanes(int major, int minor) {
  if (major < 5) return 0;
  if (major == 5) return 128;
  if (major == 6) return minor == 0 ? 64 : 128;
  return major == 7 || (major == 8 && minor == 0) ? 64 : 128;
}

std::vector<DeviceInfo> list_devices() {
  const Driver& driver = Driver::initialized();
  int count = 0;
  driver.check(driver.device_get_count(&count), "counting the GPUs");
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    CUdevice device{};
    driver.check(driver.device_get(&device, i), "opening a GPU by its index");
    devices.push_back(facts_of(driver, device));
  }
  return devices;
}

std::unique_ptr<Device> open_device(const std::string& which) {
  const std::vector<DeviceInfo> devices = list_devices();
  const int index = select_device(which, devices);
  const Driver& driver = Driver::initialized();
  CUdevice device{};
  driver.check(driver.device_get(&device, index), "opening a GPU by its index");
  return std::make_unique<CudaDevice>(driver, device, devices[static_cast<std::size_t>(index)]);
}

int device_of_current_primary_context() noexcept {
  static std::atomic<const Driver*> known{nullptr};
  static std::array<std::atomic<CUcontext>, 64> primary_of{};  // by device; null: not known yet
  thread_local CUcontext last = nullptr;                       // primary context of `last_device`
  thread_local CUdevice last_device{};
  try {
    const Driver* driver = known.load(std::memory_order_relaxed);
    if (!driver) known = driver = &Driver::initialized();
    CUcontext context = nullptr, primary = nullptr;
    CUdevice device{};
    if (driver->ctx_get_current(&context) != CUDA_SUCCESS || !context) return -1;
    if (context == last) return last_device;
    if (driver->ctx_get_device(&device) != CUDA_SUCCESS) return -1;
    std::atomic<CUcontext>& kept = primary_of[static_cast<std::size_t>(device) % primary_of.size()];
    if (kept.load(std::memory_order_relaxed) != context) {
      if (driver->primary_ctx_retain(&primary, device) != CUDA_SUCCESS) return -1;
      driver->primary_ctx_release(device);
      if (primary != context) return -1;
      kept = context;
    }
    last = context, last_device = device;
    return device;
  } catch (const Error&) {
    return -1;
  }
}

std::unique_ptr<Device> open_current_device() {
  const Driver& driver = Driver::initialized();
  CUcontext context = nullptr;
  driver.check(driver.ctx_get_current(&context), "asking for this thread's context");
  CUdevice device{};
  if (context) {
    driver.check(driver.ctx_get_device(&device), "asking for this thread's device");
  } else {
    driver.check(driver.device_get(&device, 0), "opening the first GPU");
  }
  return std::make_unique<CudaDevice>(driver, device, facts_of(driver, device));
}

}  // namespace tilewise::cuda
