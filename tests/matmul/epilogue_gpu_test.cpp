// Products with epilogues on a GPU.
#include "tests/matmul/epilogue_checks.hpp"

namespace tilewise::epilogue_gpu_test {
namespace {

struct EpiloguesOnTheGpu : test::EpiloguesServed {
  EpiloguesOnTheGpu() : EpiloguesServed("0") {}
};
TEST_F(EpiloguesOnTheGpu, EveryKind) { check_every_kind(); }
TEST_F(EpiloguesOnTheGpu, Batches) { check_batches(); }
TEST_F(EpiloguesOnTheGpu, ScalesOfBlocks) { check_scales(); }
TEST_F(EpiloguesOnTheGpu, WithoutSums) { check_empty(); }

}  // namespace
}  // namespace tilewise::epilogue_gpu_test
