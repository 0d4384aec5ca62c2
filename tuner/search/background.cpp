#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

/// From the first next() on, only the thread uses the inner strategy.
class Background : public Strategy {
 public:
  Background(std::unique_ptr<Strategy> inner, std::size_t ready)
      : inner_(std::move(inner)), most_ready_(ready) {}

  std::optional<Candidate> next() override {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable())
      thread_ = std::jthread([this](const std::stop_token& stop) { propose_until(stop); });
    changed_.wait(lock, [this] { return !ready_.empty() || failure_ || (used_up_ && !news()); });
    if (failure_) std::rethrow_exception(failure_);
    if (ready_.empty()) return std::nullopt;
    Candidate candidate = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return candidate;
  }

  void observe(const Candidate& candidate, std::optional<double> microseconds) override {
    const std::lock_guard lock(mutex_);
    results_.emplace_back(candidate, microseconds);
    changed_.notify_all();
  }

  void suggest(const Candidate& candidate) override { inner_->suggest(candidate); }

  std::optional<double> expected_gain() const override {
    const std::lock_guard lock(mutex_);
    return gain_;
  }

 private:
  using Result = std::pair<Candidate, std::optional<double>>;

  bool news() const { return !results_.empty() || busy_; }

  void propose_until(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested() && !failure_) {
      changed_.wait(lock, stop, [this] {
        return !results_.empty() || (ready_.size() < most_ready_ && !used_up_);
      });
      if (stop.stop_requested()) return;
      const std::deque<Result> results = std::exchange(results_, {});
      const bool wanted = ready_.size() < most_ready_;
      busy_ = true;
      lock.unlock();
      std::optional<Candidate> candidate;
      std::exception_ptr failure;
      std::optional<double> gain;
      try {
        for (const Result& result : results) inner_->observe(result.first, result.second);
        if (wanted) candidate = inner_->next();
        gain = inner_->expected_gain();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      failure_ = failure;
      gain_ = gain;
      used_up_ = wanted && !candidate;
      if (candidate) ready_.push_back(std::move(*candidate));
      changed_.notify_all();
    }
  }

  const std::unique_ptr<Strategy> inner_;
  const std::size_t most_ready_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::deque<Candidate> ready_;
  std::deque<Result> results_;
  bool busy_ = false;     // the thread uses inner_
  bool used_up_ = false;  // inner_ had no proposal after the last results
  std::exception_ptr failure_;
  std::optional<double> gain_;
  std::jthread thread_;  // last: it uses all other members
};

}  // namespace

std::unique_ptr<Strategy> make_background(std::unique_ptr<Strategy> inner, std::size_t ready) {
  return std::make_unique<Background>(std::move(inner), ready);
}

}  // namespace tilewise
