// The template "small" on the GPU.
#include "tests/matmul/small_checks.hpp"

namespace tilewise::small_gpu_test {
namespace {

struct SmallGpu : test::SmallProducts {
  SmallGpu() : SmallProducts("auto") {}
};

TEST_F(SmallGpu, EveryKindInSomeConfigurations) { check_every_kind(6); }
TEST_F(SmallGpu, NanStaysInItsRow) {
  check_nan_stays({{"SPLIT_M", 4}, {"PRODUCTS", 1}});
  check_nan_stays({{"THREAD_M", 8}, {"THREAD_N", 8}, {"PRODUCTS", 4}, {"GROUPS", 2}});
}
TEST_F(SmallGpu, WithoutAProductOperandsAreNotTouched) { check_nothing_to_multiply(); }

}  // namespace
}  // namespace tilewise::small_gpu_test
