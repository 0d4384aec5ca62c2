// Rings of tiles under pressure on the GPU.
#include "tests/matmul/ring_checks.hpp"

namespace tilewise {
namespace {

struct RingGpu : test::EveryRing {
  RingGpu() : EveryRing("auto") {}
};

TEST_F(RingGpu, MmaFreesNoStageThatIsStillRead) { check_mma(4096, 4096, 64, 20); }
TEST_F(RingGpu, SimtFreesNoStageThatIsStillRead) { check_simt(4096, 4096, 64, 20); }

}  // namespace
}  // namespace tilewise
