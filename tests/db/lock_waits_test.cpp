// Waits for locks: BudgetClock stops, and on_lock_wait() is called once for each long wait.
#include "db/lock_waits.hpp"

#include <chrono>
#include <thread>

#include "db/sqlite.hpp"
#include "tests/db/samples.hpp"

namespace tilewise::lock_waits_test {
namespace {

using namespace samples;
using Clock = std::chrono::steady_clock;

double seconds_between(auto from, auto to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Holds a database's lock in another thread until others have waited for it for `seconds`, however
/// late they start. SQLite's connections do not share state.
class Lock {
 public:
  Lock(const std::filesystem::path& path, double seconds)
      : connection_(path, Connection::Access::write) {
    connection_.execute("BEGIN IMMEDIATE");
    thread_ = std::jthread([this, until = lock_wait_seconds() + seconds] {
      while (lock_wait_seconds() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      connection_.execute("COMMIT");
    });
  }

 private:
  Connection connection_;
  std::jthread thread_;
};

struct Said {
  explicit Said(std::vector<std::filesystem::path>& list) {
    on_lock_wait([&list](const std::filesystem::path& path) { list.push_back(path); });
  }
  ~Said() { on_lock_wait({}); }
};

TEST(LockWaits, StopTheClockOfBudgetsAndAreTold) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database db = Database::open(path);
  std::vector<std::filesystem::path> said;
  const Said saying(said);
  const Clock::time_point steady = Clock::now();
  const BudgetClock::time_point budget = BudgetClock::now();
  const double waited = lock_wait_seconds();
  {
    const Lock lock(path, 1.5);
    db.add(record(64));
    db.add(record(128));  // does not wait
  }
  const double spent = seconds_between(budget, BudgetClock::now());
  const double waits = lock_wait_seconds() - waited;
  EXPECT_GE(waits, 1.5);
  EXPECT_LE(spent, seconds_between(steady, Clock::now()) - waits + 1e-6);
  EXPECT_EQ(said, std::vector<std::filesystem::path>{path}) << "once a wait";
  EXPECT_EQ(db.records({}).size(), 2U);
}

TEST(LockWaits, OfTwoThreadsAtOnceCountOnce) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  { const Database made = Database::open(path); }
  const double waited = lock_wait_seconds();
  const Clock::time_point begin = Clock::now();
  {
    const Lock lock(path, 0.5);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&path] { Database::open(path).add(record(64)); });
  }
  const double all = seconds_between(begin, Clock::now());
  EXPECT_GE(lock_wait_seconds() - waited, 0.5);
  EXPECT_LE(lock_wait_seconds() - waited, all);
}

TEST(LockWaits, ThatAreShortAreNotTold) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database db = Database::open(path);
  std::vector<std::filesystem::path> said;
  const Said saying(said);
  db.add(record(64));
  EXPECT_TRUE(said.empty());
}

TEST(LockWaits, EndAtTheirLimit) {
  LockWait wait;
  EXPECT_FALSE(wait.sleep("x.db", std::chrono::milliseconds(0)));
  wait.begin();
  int sleeps = 0;
  while (wait.sleep("x.db", std::chrono::milliseconds(20))) ++sleeps;
  EXPECT_GE(sleeps, 1);
  EXPECT_LE(sleeps, 20) << "the first sleep is a millisecond or more";
}

}  // namespace
}  // namespace tilewise::lock_waits_test
