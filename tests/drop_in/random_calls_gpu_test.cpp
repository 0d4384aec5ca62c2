#include "device/machines.hpp"
#include "tests/drop_in/random_calls.hpp"
#include "tilewise/error.hpp"

namespace tilewise::drop_in {
namespace {

TEST_F(RandomCalls, HaveTheResultsOfCublas) {
  std::unique_ptr<Device> device;
  try {
    device = open_device("auto");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  if (device->info().target.host) GTEST_SKIP() << "no GPU";
  if (!start(std::move(device), {"libcublas.so.13", "libcublas.so.12"}))
    GTEST_SKIP() << "no cuBLAS";
  const char* asked = std::getenv("TILEWISE_RANDOM_CALLS");
  compare(asked ? std::atoi(asked) : 2000);
}

}  // namespace
}  // namespace tilewise::drop_in
