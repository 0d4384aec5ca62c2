// Rings of tiles under pressure on the GPU.
#include "tests/matmul/ring_checks.hpp"

namespace tilewise {
namespace {

struct RingGpu : test::EveryRing {
  RingGpu() : EveryRing("auto") {}
};

TEST_F(RingGpu, MmaIsRightUnderPressure) { check_mma(8192, 8192, 64, 6); }
TEST_F(RingGpu, MmaIsRightUnderPressurePacked) { check_packed_mma(5124, 700, 2048, 60); }
TEST_F(RingGpu, SimtIsRightUnderPressure) { check_simt(8192, 8192, 64, 6); }

}  // namespace
}  // namespace tilewise
