#include "matmul/executable_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/fake_device.hpp"

namespace tilewise::executable_cache_test {
namespace {

Request rows(std::int64_t m) {
  Request request;
  request.problem.m = m, request.problem.n = 1, request.problem.k = 1;
  return request;
}

class ExecutableCacheTest : public testing::Test {
 protected:
  std::shared_ptr<const Executable> executable(std::int64_t m) {
    return std::make_shared<const Executable>(
        device, rows(m).problem, Plan{}, std::map<KernelSpec, std::shared_ptr<LoadedKernel>>{});
  }
  static std::int64_t rows_of(const std::shared_ptr<const Executable>& found) {
    return found ? found->problem().m : 0;
  }
  FakeDevice device;
};

TEST_F(ExecutableCacheTest, NeverKeepsMoreThanItsCapacity) {
  ExecutableCache choices(8);
  for (std::int64_t m = 1; m <= 100; ++m) {
    choices.add(rows(m), executable(m));
    EXPECT_EQ(rows_of(choices.find(rows(m))), m);
    EXPECT_EQ(choices.size(), std::min<std::size_t>(m, 8));
  }
  std::size_t found = 0;
  for (std::int64_t m = 1; m <= 100; ++m) found += rows_of(choices.find(rows(m))) == m;
  EXPECT_EQ(found, 8u);
}

TEST_F(ExecutableCacheTest, WhatIsLookedUpStays) {
  ExecutableCache choices(4);
  choices.add(rows(1000), executable(1000));
  for (std::int64_t m = 1; m <= 100; ++m) {
    ASSERT_TRUE(choices.find(rows(1000))) << m;
    choices.add(rows(m), executable(m));
  }
}

TEST_F(ExecutableCacheTest, WhereAllAreLookedUpOneIsReplacedAllTheSame) {
  ExecutableCache choices(4);
  for (std::int64_t m = 1; m <= 100; ++m) {
    for (std::int64_t other = 1; other < m; ++other) choices.find(rows(other));
    choices.add(rows(m), executable(m));
    EXPECT_EQ(rows_of(choices.find(rows(m))), m);
  }
  EXPECT_EQ(choices.size(), 4u);
}

TEST_F(ExecutableCacheTest, AReplacedExecutableLivesAsLongAsItsLastHolder) {
  ExecutableCache choices(1);
  choices.add(rows(1), executable(1));
  std::shared_ptr<const Executable> held = choices.find(rows(1));
  const std::weak_ptr<const Executable> watched = held;
  choices.add(rows(2), executable(2));
  EXPECT_FALSE(choices.find(rows(1)));
  EXPECT_EQ(held->problem(), rows(1).problem);
  held.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(ExecutableCacheTest, ThreadsLookUpWhileOneReplaces) {
  ExecutableCache choices(16);
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::jthread> readers;
  for (int t = 0; t < 3; ++t)
    readers.emplace_back([&] {
      for (std::int64_t m = 1; !over; m = m % 64 + 1) {
        const auto found = choices.find(rows(m));
        if (found && found->problem() != rows(m).problem) ++wrong;
      }
    });
  for (int round = 0; round < 50; ++round)
    for (std::int64_t m = 1; m <= 64; ++m)
      if (!choices.find(rows(m))) choices.add(rows(m), executable(m));
  over = true;
  readers.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tilewise::executable_cache_test
