#pragma once
#include <chrono>
#include <filesystem>
#include <functional>

/// Waits of this process for locks on databases that another process holds. Thread-safe.
namespace tilewise {

/// A steady clock that stops while a connection of this process waits for such a lock. Time budgets
/// use it.
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

/// Total seconds of these waits since the process began.
double lock_wait_seconds();

/// In each wait that has lasted a second, the waiting thread calls `say` once with the database. An
/// empty function disables the calls.
void on_lock_wait(std::function<void(const std::filesystem::path&)> say);

/// The wait of one statement. Sleeps between tries.
class LockWait {
 public:
  /// Starts again, before the first try.
  void begin() { *this = {}; }
  /// Sleeps before the next try. False when `limit` has passed since the first try.
  bool sleep(const std::filesystem::path& database, std::chrono::milliseconds limit);

 private:
  std::chrono::steady_clock::time_point started_ = {};
  int tries_ = 0;
  bool said_ = false;
};

}  // namespace tilewise
