// Functions of epilogues within their bounds, on the CPU executor.
#include "tests/tuner/pointwise_bounds_checks.hpp"

namespace tilewise::pointwise_bounds_test {
namespace {

struct PointwiseBoundsOnTheCpu : test::PointwiseBounds {
  PointwiseBoundsOnTheCpu() : PointwiseBounds("host") {}
};

TEST_F(PointwiseBoundsOnTheCpu, HoldEveryFunction) {
  check_within_bounds<float>();
  check_within_bounds<double>();
}

}  // namespace
}  // namespace tilewise::pointwise_bounds_test
