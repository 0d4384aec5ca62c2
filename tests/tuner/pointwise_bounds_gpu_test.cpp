// Functions of epilogues within their bounds, on a GPU.
#include "tests/tuner/pointwise_bounds_checks.hpp"

namespace tilewise::pointwise_bounds_gpu_test {
namespace {

struct PointwiseBoundsGpu : test::PointwiseBounds {
  PointwiseBoundsGpu() : PointwiseBounds("auto") {}
};

TEST_F(PointwiseBoundsGpu, HoldEveryFunction) {
  check_within_bounds<float>();
  check_within_bounds<double>();
}

}  // namespace
}  // namespace tilewise::pointwise_bounds_gpu_test
