#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "device/compiler.hpp"
#include "device/device.hpp"

/// The CPU as a device: the system's C++ compiler compiles kernels, fibers run the threads of a
/// block, all cores run blocks. For building, checking and debugging kernels without a GPU.
namespace tilewise::cpu {

/// The order of a block's threads between two barriers. It does not affect a correct kernel.
enum class ThreadOrder : std::uint8_t { forward, reversed, shuffled };

struct CpuOptions {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 1;  ///< of the shuffled order
  int workers = 0;         ///< concurrent blocks; 0: one per core
  /// Deadlock timeout: processor seconds in which every thread only waits.
  double stall_seconds = 10;
};

/// A name of the CPU ("host", "host:sm_90a"; "cpu" is a synonym of "host"), spelled with "host";
/// empty for other texts.
std::string host_name(const std::string& which);
inline bool is_host(const std::string& which) { return !host_name(which).empty(); }

/// The CPU as "host" (the features of default_host_target()) or "host:sm_90a". Throws
/// Error(invalid_argument) for a bad name, Error(unsupported) for an unknown capability.
DeviceInfo device_info(const std::string& which);

/// Synchronous: all work is done when a call returns; streams, events and graphs only keep the
/// order. Pointers are ordinary pointers. A mistake of a kernel (divergent barrier, deadlock, write
/// past the block's shared memory) throws Error(device) with block, thread, file and line.
std::unique_ptr<Device> open_device(const std::string& which, const CpuOptions& options = {});

/// Removes the temporary folders of this user's killed processes and ends compilers that still run
/// in them. Keeps the folders of running processes. Reads each place for temporary files once. The
/// first compile of a process also does it.
void sweep_temporary_folders() noexcept;

/// For a process that ends by _exit(): kills its compilers and removes its temporary folders. A
/// thread that starts a compiler or makes a folder afterwards blocks for ever.
void prepare_immediate_exit() noexcept;

struct CompilerOptions {
  std::string flags = "-O3";  ///< must be high: a kernel's register arrays need unrolled loops
  /// A folder in which sources and binaries remain, for debuggers; empty: a temporary folder,
  /// removed after each kernel.
  std::string keep_in;
};

/// TILEWISE_HOST_FLAGS and TILEWISE_HOST_KEEP if they are set, otherwise the defaults.
CompilerOptions compiler_options_from_environment();

/// The compiler in TILEWISE_CXX or CXX, otherwise c++, g++ or clang++. Throws Error(compiler) when
/// there is none.
std::unique_ptr<Compiler> load_compiler(
    const CompilerOptions& options = compiler_options_from_environment());

}  // namespace tilewise::cpu
