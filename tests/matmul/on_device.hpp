#pragma once
// A device by name, and its compiler. Tests are skipped without the device.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "device/compiler.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"

namespace tilewise::test {

class OnDevice : public testing::Test {
 protected:
  explicit OnDevice(std::string name) : name_(std::move(name)) {}
  void SetUp() override {
    setenv("TILEWISE_HOST_FLAGS", "-O0", 0);  // faster compiles outweigh slower kernels
    try {
      device_ = open_device(name_);
      compiler_ = load_compiler(device_->info().target);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  DeviceBuffer uploaded(const void* from, std::int64_t bytes) {
    DeviceBuffer buffer(*device_, bytes);
    device_->copy_to_device(buffer.data(), from, bytes, nullptr);
    device_->synchronize(nullptr);
    return buffer;
  }

  std::string name_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace tilewise::test
