// A, B and C next to each other in the rows of one buffer, on a GPU.
#include "tests/matmul/one_buffer_checks.hpp"

namespace tilewise::one_buffer_gpu_test {
namespace {

struct OneBufferOnTheGpu : test::OneBuffer {
  OneBufferOnTheGpu() : OneBuffer("0") {}
};
TEST_F(OneBufferOnTheGpu, EveryTemplate) {
  check_templates_in_one_buffer(64, 4);
  check_templates_in_one_buffer(520, 4);
}

}  // namespace
}  // namespace tilewise::one_buffer_gpu_test
