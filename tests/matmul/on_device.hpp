#pragma once
// A device by name, and its compiler. Tests are skipped without the device.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "device/compiler.hpp"
#include "device/machines.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"

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

  /// The images of a plan's kernels; empty, with the compiler's log, where one does not compile.
  std::vector<Image> images_of(const Plan& plan, std::string& log) {
    std::vector<Image> images;
    for (const LaunchStep& step : plan.steps) {
      const KernelSource source = kernel_source(step.kernel);
      const CompileResult made =
          compiler_->compile({step.kernel, source.text, source.headers, device_->info().target});
      log = made.log;
      if (!made.image) return {};
      images.push_back(*made.image);
    }
    return images;
  }

  std::string name_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace tilewise::test
