// Epilogues in the kernel dialect on a GPU.
#include "tests/matmul/pointwise_checks.hpp"

namespace tilewise::pointwise_gpu_test {
namespace {

struct PointwiseGpu : test::Pointwise {
  PointwiseGpu() : Pointwise("auto") {}
};

TEST_F(PointwiseGpu, OperatorsRoundEachByItself) {
  check<float>(rounded());
  check<double>(rounded());
}
TEST_F(PointwiseGpu, IntegersSaturate) { check_integers(); }

}  // namespace
}  // namespace tilewise::pointwise_gpu_test
