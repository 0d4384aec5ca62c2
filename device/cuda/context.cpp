#include "device/cuda/context.hpp"

namespace tilewise::cuda {

PrimaryContext::PrimaryContext(const Driver& driver, CUdevice device)
    : driver_(driver), device_(device) {
  driver_.check(driver_.primary_ctx_retain(&handle_, device_), "opening the GPU's primary context");
}

PrimaryContext::~PrimaryContext() { driver_.primary_ctx_release(device_); }

}  // namespace tilewise::cuda
