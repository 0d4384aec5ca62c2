#include "tests/drop_in/random_calls.hpp"
#include "device/machines.hpp"

namespace tilewise::drop_in {
namespace {

TEST_F(RandomCalls, OnTheCpuHaveTheResultsOfPlainLoops) {
  setenv("TILEWISE_DROP_IN_DEVICE", "host", 1);
  const std::string none = testing::TempDir() + "drop_in_random_calls/none.db";
  setenv("TILEWISE_DB", none.c_str(), 1);
  ASSERT_TRUE(start(open_device("host"), {TILEWISE_FAKE_CUBLAS}, 40, 40, 32 << 20));
  compare(count(400));
}

}  // namespace
}  // namespace tilewise::drop_in
