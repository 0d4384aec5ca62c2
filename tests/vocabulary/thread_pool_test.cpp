#include "vocabulary/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace tilewise::thread_pool_test {
namespace {

TEST(ThreadPool, RunsEverythingAndCarriesExceptions) {
  ThreadPool pool(3);
  EXPECT_EQ(pool.size(), 3U);
  std::atomic<int> sum{0};
  std::vector<std::future<void>> done;
  for (int i = 1; i <= 100; ++i) done.push_back(pool.run([&sum, i] { sum += i; }));
  std::future<void> bad = pool.run([] { throw std::runtime_error("planted"); });
  for (std::future<void>& task : done) task.get();
  EXPECT_EQ(sum, 5050);
  EXPECT_THROW(bad.get(), std::runtime_error);
}

TEST(ThreadPool, FinishesTheTaskUnderWayAndDropsTheOthers) {
  std::promise<void> begun;
  std::atomic<bool> finished{false};
  std::future<void> dropped;
  {
    ThreadPool pool(1);
    pool.run([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      finished = true;
    });
    dropped = pool.run([] {});
    begun.get_future().wait();
  }
  EXPECT_TRUE(finished);
  EXPECT_THROW(dropped.get(), std::future_error);
}

TEST(ThreadPool, ForEachMakesEachCallOnceAndOneAtATimeForAWorker) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> calls(97), busy(5);
    std::atomic<bool> alone{true};
    pool.for_each(97, [&](std::int64_t index, int worker) {
      if (++busy.at(static_cast<std::size_t>(worker)) != 1) alone = false;
      ++calls[static_cast<std::size_t>(index)];
      --busy[static_cast<std::size_t>(worker)];
    });
    for (const std::atomic<int>& count : calls) ASSERT_EQ(count, 1);
    EXPECT_TRUE(alone);
  }
  pool.for_each(0, [](std::int64_t, int) { FAIL(); });
}

TEST(ThreadPool, ForEachThrowsTheFirstExceptionWhenAllCallsHaveEnded) {
  ThreadPool pool(3);
  std::atomic<int> inside{0}, begun{0};
  const auto task = [&](std::int64_t index, int) {
    ++begun;
    ++inside;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside;
    if (index == 5) throw std::runtime_error("planted at " + std::to_string(index));
  };
  try {
    pool.for_each(10'000, task);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "planted at 5");
  }
  EXPECT_EQ(inside, 0);
  EXPECT_LT(begun, 10'000);
}

// All threads are busy, so the caller runs all indices.
TEST(ThreadPool, ForEachFromItsOwnTasksEnds) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  std::vector<std::future<void>> done;
  for (int i = 0; i < 4; ++i)
    done.push_back(pool.run([&] { pool.for_each(10, [&](std::int64_t, int) { ++calls; }); }));
  for (std::future<void>& task : done) task.get();
  EXPECT_EQ(calls, 40);
}

TEST(ThreadPool, ParallelForTakesNoMoreWorkersThanAsked) {
  std::atomic<int> largest{0}, calls{0};
  parallel_for(1000, 3, [&](std::int64_t, int worker) {
    ++calls;
    for (int seen = largest; worker > seen && !largest.compare_exchange_weak(seen, worker);) {
    }
  });
  EXPECT_EQ(calls, 1000);
  EXPECT_LT(largest, 3);
  EXPECT_THROW(parallel_for(3, 2, [](std::int64_t, int) { throw std::runtime_error("planted"); }),
               std::runtime_error);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these need address space
// The threads that were made before the refusal end.
TEST(ThreadPoolDeathTest, ThrowsWhereTheSystemRefusesAThread) {
  const auto with_little_memory = [] {
    alarm(60);
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{200} << 20);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    try {
      ThreadPool pool(10'000);
    } catch (const std::system_error&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  };
  EXPECT_EXIT(with_little_memory(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace tilewise::thread_pool_test
