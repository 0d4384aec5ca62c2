#include "device/machines.hpp"

#include "device/cpu/cpu.hpp"
#include "device/cuda/cuda.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

std::unique_ptr<Device> open_device(const std::string& which) {
  if (cpu::is_host(which)) return cpu::open_device(which);
  if (which == "current") return cuda::open_current_device();
  if (cuda::names_gpu(which)) return cuda::open_device(which);
  throw Error(ErrorKind::invalid_argument,
              "device \"" + which +
                  "\" is none of current, auto, an index (0, 1, ...), a UUID (GPU-..., MIG-...), "
                  "host, host:sm_90 (cpu is another name of host)");
}

std::unique_ptr<Compiler> load_compiler(const Target& target, const std::string& nvrtc) {
  return target.host ? cpu::load_compiler() : cuda::load_compiler(nvrtc);
}

std::unique_ptr<BaselineLibrary> load_baseline(Device& device) {
  return device.info().target.host ? nullptr : cuda::load_cublas(device);
}

BaselineLibraries load_baselines(Device& device) {
  BaselineLibraries libraries;
  if (device.info().target.host) return libraries;
  libraries.push_back(cuda::load_cublas(device));
  libraries.push_back(cuda::load_cublas(device, nullptr, cuda::CublasMath::pedantic));
  libraries.push_back(cuda::load_best_of_cublas_lt(device));
  std::erase(libraries, nullptr);
  return libraries;
}

}  // namespace tilewise
