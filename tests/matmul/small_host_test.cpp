// The template "small" on the CPU executor.
#include "tests/matmul/small_checks.hpp"

namespace tilewise::small_host_test {
namespace {

struct SmallOnTheCpu : test::SmallProducts {
  SmallOnTheCpu() : SmallProducts("host") {}
};

TEST_F(SmallOnTheCpu, EveryKindInSomeConfigurations) { check_every_kind(3); }
TEST_F(SmallOnTheCpu, NanStaysInItsRow) {
  check_nan_stays({{"SPLIT_M", 4}, {"PRODUCTS", 1}});
  check_nan_stays({{"THREAD_M", 8}, {"THREAD_N", 8}, {"PRODUCTS", 4}, {"GROUPS", 2}});
}
TEST_F(SmallOnTheCpu, WithoutAProductOperandsAreNotTouched) { check_nothing_to_multiply(); }

}  // namespace
}  // namespace tilewise::small_host_test
