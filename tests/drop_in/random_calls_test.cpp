#include "tests/drop_in/random_calls.hpp"
#include "device/machines.hpp"

namespace tilewise::drop_in {
namespace {

TEST_F(RandomCalls, OnTheCpuHaveTheResultsOfPlainLoops) {
  setenv("TILEWISE_DROP_IN_DEVICE", "host", 1);
  setenv("TILEWISE_DB", "/nonexistent/none.db", 1);
  ASSERT_TRUE(start(open_device("host"), {TILEWISE_FAKE_CUBLAS}));
  compare(80);
  // They were answered: plain loops had each call once.
  auto* const products = cublas_.get<int()>("fake_cublas_products");
  EXPECT_EQ(products(), 80);
}

}  // namespace
}  // namespace tilewise::drop_in
