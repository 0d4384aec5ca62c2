#pragma once
// Shared by the GPU tests of device/.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda/cuda.hpp"
#include "gpu_kernels.hpp"
#include "tilewise/error.hpp"

namespace tilewise::test {

inline Image compile(const Device& device, const std::string& text, const std::string& entry) {
  static const std::unique_ptr<Compiler> compiler = cuda::load_compiler();
  CompileRequest request;
  request.kernel = {entry + ".cu", entry, {}};
  request.text = text;
  request.target = device.info().target;
  CompileResult result = compiler->compile(request);
  if (!result.image) throw std::runtime_error(entry + " does not compile: " + result.log);
  return std::move(*result.image);
}

/// The argument struct of the kernels `add` and `dependent_add`.
struct AddArguments {
  void* x;
  std::int64_t n;
  float by;
};

inline LaunchShape one_dimensional(std::int64_t n) {
  LaunchShape shape;
  shape.grid.x = static_cast<std::uint32_t>((n + 255) / 256);
  shape.block.x = 256;
  return shape;
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A test with a GPU and a stream; skipped without a GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = cuda::open_device("auto");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    stream_ = device_->create_stream();
  }
  void TearDown() override {
    if (device_) device_->destroy_stream(stream_);
  }
  bool needs(Feature feature) const { return !has(device_->info().features, feature); }

  template <typename T>
  std::vector<T> read(const void* from, std::size_t count) {
    std::vector<T> values(count);
    device_->copy_to_host(values.data(), from, static_cast<std::int64_t>(count * sizeof(T)),
                          stream_);
    device_->synchronize(stream_);
    return values;
  }
  template <typename T>
  DeviceBuffer upload(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    DeviceBuffer buffer(*device_, bytes);
    device_->copy_to_device(buffer.data(), values.data(), bytes, stream_);
    device_->synchronize(stream_);
    return buffer;
  }
  DeviceBuffer filled(std::int64_t floats, float value) {
    DeviceBuffer buffer(*device_, floats * 4);
    device_->fill32(buffer.data(), bits_of(value), floats, stream_);
    device_->synchronize(stream_);
    return buffer;
  }
  void enqueue_add(const LoadedKernel& kernel, void* x, std::int64_t n, float by, Stream stream) {
    const AddArguments arguments{x, n, by};
    device_->launch(kernel, one_dimensional(n), &arguments, stream);
  }

  std::unique_ptr<Device> device_;
  Stream stream_ = nullptr;
};

}  // namespace tilewise::test
