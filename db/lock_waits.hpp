#pragma once
#include <chrono>
#include <filesystem>
#include <functional>

/// Waits of this process for locks on databases that another process holds. Thread-safe.
namespace tilewise {

/// A steady clock that stands still while a connection of this process waits for such a lock. Time
/// budgets are counted by it.
struct BudgetClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BudgetClock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

/// The longest wait of one statement.
inline constexpr int kMostLockWaitSeconds = 30;

/// Seconds of such waits since the process began.
double lock_wait_seconds();

/// `say` is called with the database in each wait that has lasted a second, once, in the waiting
/// thread. Empty: nothing is called.
void on_lock_wait(std::function<void(const std::filesystem::path&)> say);

/// The wait of one statement. Sleeps between tries.
class LockWait {
 public:
  /// Begins anew: no try was made yet.
  void begin() { *this = {}; }
  /// Sleeps before the next try. False where `limit` is over since the first try.
  bool sleep(const std::filesystem::path& database, std::chrono::milliseconds limit);

 private:
  std::chrono::steady_clock::time_point started_ = {};
  int tries_ = 0;
  bool said_ = false;
};

}  // namespace tilewise
