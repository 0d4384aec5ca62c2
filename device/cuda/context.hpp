#pragma once
#include "device/cuda/driver.hpp"

namespace tilewise::cuda {

/// A device's primary context, retained: the one the CUDA runtime uses, so pointers and streams are
/// shared with programs that use it. Kernels, graphs and events hold it too, so that whatever order
/// they are destroyed in, their handles are still valid.
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

/// Makes a context current on this thread while it lives. The driver is asked, not a copy of our
/// own: that costs nanoseconds too, and the program may switch devices between two calls. A thread
/// that had no context keeps ours, as after the CUDA runtime's first call; another context is put
/// back. A context that cannot be made current shows as an error of the call that follows.
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

}  // namespace tilewise::cuda
