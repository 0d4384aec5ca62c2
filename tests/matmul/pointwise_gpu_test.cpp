// Epilogues in the kernel dialect on a GPU.
#include "tests/matmul/pointwise_checks.hpp"

namespace tilewise::pointwise_gpu_test {
namespace {

struct PointwiseGpu : test::Pointwise {
  PointwiseGpu() : Pointwise("auto") {}
};

TEST_F(PointwiseGpu, OperatorsRoundEachByItself) {
  check_rounded<float>();
  check_rounded<double>();
}
TEST_F(PointwiseGpu, IntegersSaturate) { check_integers(); }
TEST_F(PointwiseGpu, FunctionsAreNearTheExactValue) {
  check_computed<float>(8);
  check_computed<double>(8);
}

}  // namespace
}  // namespace tilewise::pointwise_gpu_test
