#pragma once
#include "device/cuda/driver.hpp"

namespace tilewise::cuda {

/// A device's retained primary context. The CUDA runtime uses the same context, so pointers and
/// streams are shared with programs that use the runtime. Kernels, graphs and events share
/// ownership, so their handles stay valid in any order of destruction.
class PrimaryContext {
 public:
  PrimaryContext(const Driver& driver, CUdevice device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const { return driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }

 private:
  const Driver& driver_;
  CUdevice device_;
  CUcontext handle_ = nullptr;
};

/// Makes a context current on this thread for its scope. The current context is read from the
/// driver each time (nanoseconds), since the program may switch devices between two calls. Another
/// context is restored at the end; a thread without a context keeps this one, as after the CUDA
/// runtime's first call. A failure shows as an error of the driver call that follows.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& wanted) noexcept : driver_(wanted.driver()) {
    CUcontext now = nullptr;
    driver_.ctx_get_current(&now);
    if (now == wanted.handle()) [[likely]] {
      return;
    }
    driver_.ctx_set_current(wanted.handle());
    before_ = now;
  }
  ~CurrentContext() {
    if (before_) driver_.ctx_set_current(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  CUcontext before_ = nullptr;
};

/// In its scope this thread may allocate, free, load and unload while another captures a
/// stream.
class AnyCaptureMode {
 public:
  explicit AnyCaptureMode(const Driver& driver) : driver_(driver) { exchange(); }
  AnyCaptureMode(const AnyCaptureMode&) = delete;
  AnyCaptureMode& operator=(const AnyCaptureMode&) = delete;
  ~AnyCaptureMode() { exchange(); }

 private:
  void exchange() { driver_.thread_exchange_capture_mode(&mode_); }
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace tilewise::cuda
