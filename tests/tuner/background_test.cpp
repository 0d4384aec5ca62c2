// A strategy on its own thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include "tuner/search/search.hpp"

namespace tilewise::background_test {
namespace {

Candidate candidate_of(int x) { return {"made_up", {{"X", x}}}; }

/// Proposes 0 .. last, and one more for each observed result.
struct Counting : Strategy {
  explicit Counting(int most) : last(most) {}
  std::optional<Candidate> next() override {
    thread = std::this_thread::get_id();
    if (throws) throw std::runtime_error("inner");
    if (proposed >= last + observed) return std::nullopt;
    return candidate_of(proposed++);
  }
  void observe(const Candidate&, std::optional<double>) override { ++observed; }
  int last;
  std::atomic<int> proposed = 0, observed = 0;
  std::atomic<bool> throws = false;
  std::atomic<std::thread::id> thread;
};

TEST(Background, ProposesAllOnAnotherThread) {
  auto inner = std::make_unique<Counting>(100);
  const Counting& counting = *inner;
  const auto strategy = make_background(std::move(inner), 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(strategy->next(), candidate_of(i));
  EXPECT_EQ(strategy->next(), std::nullopt);
  EXPECT_NE(counting.thread.load(), std::this_thread::get_id());
}

TEST(Background, GoesOnWhenResultsBringMore) {
  const auto strategy = make_background(std::make_unique<Counting>(1), 3);
  ASSERT_EQ(strategy->next(), candidate_of(0));
  for (int i = 1; i < 200; ++i) {
    strategy->observe(candidate_of(i - 1), 5.0);
    EXPECT_EQ(strategy->next(), candidate_of(i)) << "it waits for what the result brings";
    if (i % 7 == 0) {
      EXPECT_EQ(strategy->next(), std::nullopt);
    }
  }
}

TEST(Background, HasFewProposalsReady) {
  auto inner = std::make_unique<Counting>(100);
  const Counting& counting = *inner;
  const auto strategy = make_background(std::move(inner), 3);
  strategy->next();
  while (counting.proposed < 4) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counting.proposed, 4);
}

TEST(Background, ThrowsWhatTheStrategyThrows) {
  auto inner = std::make_unique<Counting>(100);
  inner->throws = true;
  const auto strategy = make_background(std::move(inner), 3);
  EXPECT_THROW(strategy->next(), std::runtime_error);
}

TEST(Background, EndsWithProposalsLeft) {
  for (int i = 0; i < 50; ++i) {
    const auto strategy = make_background(std::make_unique<Counting>(100), 3);
    if (i % 2) strategy->next();
  }
}

}  // namespace
}  // namespace tilewise::background_test
