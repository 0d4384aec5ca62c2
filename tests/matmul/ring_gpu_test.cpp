// Rings of tiles under pressure on the GPU.
#include "tests/matmul/ring_checks.hpp"

namespace tilewise {
namespace {

struct RingGpu : test::EveryRing {
  RingGpu() : EveryRing("auto") {}
};

TEST_F(RingGpu, MmaIsRightUnderPressure) { check_mma(8192, 8192, 64, 100); }
TEST_F(RingGpu, WhatIsExchangedLeavesBarriersAlone) { check_exchange(5124, 704, 2048, 50); }
TEST_F(RingGpu, SimtIsRightUnderPressure) { check_simt(8192, 8192, 64, 100); }

}  // namespace
}  // namespace tilewise
