#include "db/lock_waits.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace tilewise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSayAfter = std::chrono::seconds(1);
constexpr auto kLongestSleep = std::chrono::milliseconds(50);

/// Measures the time in which at least one connection waits.
class Waits {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    count();
    ++waiting_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    count();
    --waiting_;
  }
  /// The current time, and the sum of all waits until now.
  std::pair<Clock::time_point, Clock::duration> read() {
    const std::lock_guard lock(mutex_);
    count();
    return {counted_until_, waited_};
  }
  void set_say(std::function<void(const std::filesystem::path&)> say) {
    const std::lock_guard lock(mutex_);
    say_ = std::move(say);
  }
  void say(const std::filesystem::path& database) {
    std::function<void(const std::filesystem::path&)> say;
    {
      const std::lock_guard lock(mutex_);
      say = say_;
    }
    if (say) say(database);
  }

 private:
  void count() {
    const Clock::time_point now = Clock::now();
    if (waiting_ > 0) waited_ += now - counted_until_;
    counted_until_ = now;
  }

  std::mutex mutex_;  // guards all members below
  int waiting_ = 0;
  Clock::time_point counted_until_;
  Clock::duration waited_{};
  std::function<void(const std::filesystem::path&)> say_;
};

/// Never destroyed: threads may wait while the process ends.
Waits& waits() {
  static Waits& all = *new Waits;
  return all;
}

}  // namespace

BudgetClock::time_point BudgetClock::now() {
  const auto [now, waited] = waits().read();
  return time_point((now - waited).time_since_epoch());
}

double lock_wait_seconds() { return std::chrono::duration<double>(waits().read().second).count(); }

void on_lock_wait(std::function<void(const std::filesystem::path&)> say) {
  waits().set_say(std::move(say));
}

bool LockWait::sleep(const std::filesystem::path& database, std::chrono::milliseconds limit) {
  const Clock::time_point now = Clock::now();
  if (tries_++ == 0) started_ = now;
  if (now - started_ >= limit) return false;
  if (now - started_ >= kSayAfter && !std::exchange(said_, true)) waits().say(database);
  waits().begin();
  std::this_thread::sleep_for(
      std::min<Clock::duration>(std::chrono::milliseconds(tries_), kLongestSleep));
  waits().end();
  return true;
}

}  // namespace tilewise
