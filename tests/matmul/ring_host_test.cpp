// The same rings on the CPU executor, once and small: it reads at once, so it shows that the
// configurations are right, not what a GPU does under pressure (ring_gpu_test.cpp).
#include "tests/matmul/ring_checks.hpp"

namespace tilewise {
namespace {

struct RingOnTheCpu : test::EveryRing {
  RingOnTheCpu() : EveryRing("host:sm_90") {}
};

TEST_F(RingOnTheCpu, MmaIsRight) { check_mma(64, 128, 64, 1); }
TEST_F(RingOnTheCpu, WhatIsExchangedLeavesBarriersAlone) { check_exchange(132, 136, 64, 1); }
TEST_F(RingOnTheCpu, SimtIsRight) { check_simt(64, 64, 64, 1); }

}  // namespace
}  // namespace tilewise
