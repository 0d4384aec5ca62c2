// A, B and C next to each other in the rows of one buffer, on the CPU executor.
#include "tests/matmul/one_buffer_checks.hpp"

namespace tilewise::one_buffer_host_test {
namespace {

struct OneBufferOnTheCpu : test::OneBuffer {
  OneBufferOnTheCpu() : OneBuffer("host") {}
};
TEST_F(OneBufferOnTheCpu, EveryTemplate) { check_templates_in_one_buffer(24, 1); }

}  // namespace
}  // namespace tilewise::one_buffer_host_test
