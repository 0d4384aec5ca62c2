#include "tuner/busy_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tilewise::busy_clock_test {
namespace {

TEST(BusyClock, CountsTheTimeWithAnyAtWork) {
  using std::chrono::milliseconds;
  const auto wait = [] { std::this_thread::sleep_for(milliseconds(20)); };
  const auto began = std::chrono::steady_clock::now();
  BusyClock clock;
  wait();
  EXPECT_EQ(clock.seconds(), 0);
  clock.set(BusyClock::device, true);
  wait();
  clock.set(BusyClock::compilers, true);
  wait();
  clock.set(BusyClock::device, false);
  wait();
  clock.set(BusyClock::compilers, false);
  const double busy = clock.seconds();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - began;
  EXPECT_GE(busy, 0.06);
  EXPECT_LE(busy, all.count() - 0.02);
  wait();
  EXPECT_EQ(clock.seconds(), busy);
}

}  // namespace
}  // namespace tilewise::busy_clock_test
