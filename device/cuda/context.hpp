#pragma once
#include "device/cuda/driver.hpp"

namespace tilewise::cuda {

/// A device's retained primary context. The CUDA runtime uses the same context, so programs that
/// use the runtime share pointers and streams with it. Kernels, graphs and events share its
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
/// driver each time (nanoseconds), since the program may switch devices between two calls. The end
/// of the scope restores another context; a thread without a context keeps this one, as after the
/// CUDA runtime's first call. The driver call that follows reports a failure.
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

/// A call of the driver's `function` with the context current. Throws what Driver::check() does.
template <class Function, class... Arguments>
void call(const PrimaryContext& context, const char* tried, Function function,
          Arguments... arguments) {
  const CurrentContext current(context);
  context.driver().check(function(arguments...), tried);
}

/// Scope in which this thread may allocate, free, load and unload while another thread captures a
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
