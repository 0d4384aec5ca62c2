#pragma once
// Tests that compile with NVRTC. They are skipped if it is missing.
#include <gtest/gtest.h>

#include <memory>

#include "device/cuda/cuda.hpp"
#include "tilewise/error.hpp"

namespace tilewise::test {

class NvrtcTest : public testing::Test {
 protected:
  /// A derived SetUp() calls this one first, and returns if IsSkipped().
  void SetUp() override {
    try {
      compiler_ = cuda::load_compiler();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace tilewise::test
