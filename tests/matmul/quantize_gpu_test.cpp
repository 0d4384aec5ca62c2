// Matmul::quantize() on a GPU, whose reciprocals are approximate.
#include "tests/matmul/quantize_checks.hpp"

namespace tilewise::quantize_gpu_test {
namespace {

struct QuantizeGpu : test::Quantizing {
  QuantizeGpu() : Quantizing("auto") {}
};

TEST_F(QuantizeGpu, QuotientsNextToTies) { check_ties(); }
TEST_F(QuantizeGpu, ZerosInfinitiesAndNan) { check_special(); }

}  // namespace
}  // namespace tilewise::quantize_gpu_test
