#include "device/cuda/driver.hpp"

#include <cstdlib>

#include "device/cuda/nvml.hpp"
#include "device/fork.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

constexpr int kOldestDriver = 12000;

/// The driver library. TILEWISE_CUDA_DRIVER names another one: tests load a fake driver.
std::string driver_file() {
  const char* file = std::getenv("TILEWISE_CUDA_DRIVER");
  return file && *file ? file : "libcuda.so.1";
}

[[noreturn]] void too_old(const std::string& has) {
  throw Error(ErrorKind::no_device, "the NVIDIA driver is too old: it serves CUDA " + has +
                                        ", and CUDA " + version_text(kOldestDriver) +
                                        " (driver 525) or newer is needed");
}

[[noreturn]] void no_gpu(const Driver& driver) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    throw Error(ErrorKind::no_device, "no GPU: the NVIDIA driver (CUDA " +
                                          version_text(driver.version()) +
                                          ") is there but shows no device");
  }
  const int there = nvml_device_count();
  const std::string which = there > 0 ? "all " + std::to_string(there) + " of this machine"
                                      : std::string("what GPUs there may be");
  throw Error(ErrorKind::no_device, "no GPU: CUDA_VISIBLE_DEVICES=\"" + std::string(visible) +
                                        "\" hides " + which + "; unset it or name one of them");
}

void start(const Driver& driver) {
  const CUresult result = driver.init(0);
  if (result == CUDA_ERROR_NO_DEVICE) no_gpu(driver);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorKind::no_device,
                "the NVIDIA driver does not start (cuInit): " + driver.words(result));
  }
  int count = 0;
  driver.check(driver.device_get_count(&count), "counting the GPUs");
  if (count == 0) no_gpu(driver);
}

}  // namespace

Driver::Driver() {
  std::string why;
  library_ = Library::open(driver_file(), why);
  if (!library_) {
    throw Error(ErrorKind::no_device,
                "no NVIDIA driver: its library cannot be loaded (" + why + ")");
  }
  CUresult (*get_version)(int*) = nullptr;
  if (!library_.get(get_version, "cuDriverGetVersion") || get_version(&version_) != CUDA_SUCCESS) {
    throw Error(ErrorKind::no_device,
                "no NVIDIA driver: " + driver_file() + " does not state its version");
  }
  if (version_ < kOldestDriver || !library_.get(get_proc_address_, "cuGetProcAddress_v2")) {
    too_old(version_text(version_));
  }
#define TILEWISE_RESOLVE(member, symbol, since, ...)                                      \
  member = reinterpret_cast<decltype(member)>(find(symbol, since));                       \
  if (!member) {                                                                          \
    throw Error(ErrorKind::no_device,                                                     \
                "the NVIDIA driver (CUDA " + version_text(version_) + ") lacks " symbol); \
  }
  TILEWISE_DRIVER_ENTRIES(TILEWISE_RESOLVE)
#undef TILEWISE_RESOLVE
}

const Driver& Driver::loaded() {
  // Never destroyed: static objects may release kernels and buffers later.
  static const Driver& driver = *new Driver();
  return driver;
}

const Driver& Driver::initialized() {
  static const std::uint32_t of_process = [] {
    start(loaded());
    return fork_generation();
  }();
  if (of_process != fork_generation())
    throw Error(ErrorKind::device,
                "CUDA does not work here: this process is the child, by fork(), of one that has "
                "used it; fork before the first use of a GPU, or exec another program");
  return loaded();
}

void* Driver::find(const char* symbol, int since) const {
  void* address = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result =
      get_proc_address_(symbol, &address, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
  return result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS ? address : nullptr;
}

std::string Driver::words(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name(result, &name) != CUDA_SUCCESS || !name) {
    return "CUDA error " + std::to_string(static_cast<int>(result));
  }
  std::string words = name;
  if (get_error_string(result, &text) == CUDA_SUCCESS && text) {
    words += " (" + std::string(text) + ")";
  }
  return words;
}

void Driver::fail(CUresult result, const std::string& tried) const {
  const ErrorKind kind =
      result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::device;
  throw Error(kind, tried + " failed: " + words(result));
}

int driver_major() noexcept {
  try {
    return Driver::loaded().version() / 1000;
  } catch (const std::exception&) {
    return 0;
  }
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string visible_devices_text() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? "; CUDA_VISIBLE_DEVICES is \"" + std::string(visible) + "\"" : "";
}

}  // namespace tilewise::cuda
