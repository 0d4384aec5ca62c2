// A search whose database another process has locked for longer than the budget.
#include <chrono>
#include <filesystem>
#include <thread>

#include "db/lock_waits.hpp"
#include "db/sqlite.hpp"
#include "tests/tuner/tune_fixture.hpp"

namespace tilewise::lock_budget_test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct LockBudget : Tune {
  LockBudget() {
    std::string pattern = (fs::temp_directory_path() / "tilewise_lock_XXXXXX").string();
    folder = mkdtemp(pattern.data());
    database = Database::open(folder / "x.db");
  }
  ~LockBudget() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  fs::path folder;
};

TEST_F(LockBudget, AWaitForTheLockIsNoPartOfTheBudget) {
  options.budget_seconds = 5;  // the search itself takes some milliseconds
  double most_said = 0;
  progress = [&](const TuneProgress& now) { most_said = std::max(most_said, now.lock_seconds); };
  const Connection holder(folder / "x.db", Connection::Access::write);
  holder.execute("BEGIN IMMEDIATE");
  const Clock::time_point begin = Clock::now();
  std::jthread release([&holder, until = lock_wait_seconds() + 1.1 * options.budget_seconds] {
    while (lock_wait_seconds() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    holder.execute("COMMIT");
  });
  const TuneResult result = run();
  const double all = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_TRUE(result.winner);
  EXPECT_GT(result.evaluated, 0);
  EXPECT_GT(result.lock_seconds, options.budget_seconds);
  EXPECT_LE(result.seconds, all - result.lock_seconds + 1e-6);
  EXPECT_GT(most_said, 0) << "the progress has it, too";
}

}  // namespace
}  // namespace tilewise::lock_budget_test
