#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "device/device.hpp"

/// The CPU as a device: kernels compiled by the system's C++ compiler, the threads of a block run
/// as fibers, blocks on all cores. For building, checking and debugging kernels where there is no
/// GPU.
namespace tilewise::host {

/// In which order the threads of a block run between two barriers. Right kernels do not care.
enum class ThreadOrder : std::uint8_t { forward, reversed, shuffled };

struct HostOptions {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 1;     ///< of the shuffled order
  int workers = 0;            ///< blocks at a time; 0: one for each core
  double stall_seconds = 10;  ///< threads that only wait for one another are a deadlock after this
};

/// Whether a device's name means the CPU: "host", "host:sm_90a".
bool is_host(const std::string& which);

/// What the CPU says of itself, as "host" (the features of default_host_target()) or "host:sm_90a".
/// Throws Error(invalid_argument) for a bad name, Error(unsupported) for an unknown capability.
DeviceInfo device_info(const std::string& which);

/// Everything on it is done when the call returns: streams, events and graphs keep their order and
/// wait for nothing. Pointers are ordinary ones. A mistake that the executor sees in a kernel (a
/// divergent barrier, a deadlock, a write past the block's shared memory) is an Error(device) that
/// names block, thread, file and line.
std::unique_ptr<Device> open_device(const std::string& which, const HostOptions& options = {});

/// Removes the temporary folders of this user's processes that were killed, and ends the compilers
/// that still work in them. Folders of living processes stay. Costs one listing of each place for
/// temporary files; also done by the first compile of a process.
void sweep_temporary_folders() noexcept;

/// For a process that ends at once, by _exit(): kills its compilers and removes its temporary
/// folders. Threads that start a compiler or make a folder from then on wait for ever.
void prepare_immediate_exit() noexcept;

struct CompilerOptions {
  std::string flags = "-O3";  ///< kernels need it: it unrolls what a thread keeps in registers
  /// A folder for sources and binaries, where debuggers find them; empty: a temporary one, removed
  /// after each kernel.
  std::string keep_in;
};

/// TILEWISE_HOST_FLAGS and TILEWISE_HOST_KEEP where they are set, else the defaults.
CompilerOptions compiler_options_from_environment();

/// The compiler that TILEWISE_CXX or CXX names, else c++, g++ or clang++. Throws Error(compiler)
/// when there is none.
std::unique_ptr<Compiler> load_compiler(
    const CompilerOptions& options = compiler_options_from_environment());

}  // namespace tilewise::host
