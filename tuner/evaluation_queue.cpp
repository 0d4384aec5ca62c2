#include "tuner/evaluation_queue.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "tilewise/error.hpp"

namespace tilewise {

void EvaluationQueue::begin(const Problem& problem, std::shared_ptr<const Reference> reference) {
  const std::lock_guard lock(mutex_);
  problem_ = problem;
  reference_ = std::move(reference);
  changed_.notify_all();
}

bool EvaluationQueue::wants_more() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() < serving_;
}

void EvaluationQueue::add(Built built, double best_us) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(built), best_us});
  changed_.notify_all();
}

std::optional<Built> EvaluationQueue::take_back() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  Built built = std::move(waiting_.back().built);
  waiting_.pop_back();
  return built;
}

std::optional<EvaluationQueue::Done> EvaluationQueue::take() {
  const std::lock_guard lock(mutex_);
  if (done_.empty()) return std::nullopt;
  Done done = std::move(done_.front());
  done_.pop_front();
  return done;
}

std::size_t EvaluationQueue::under_way() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() + running_ + done_.size();
}

std::vector<EvaluationQueue::Done> EvaluationQueue::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  waiting_.clear();
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_ == 0; });
  std::vector<Done> rest;
  for (Done& done : done_) rest.push_back(std::move(done));
  done_.clear();
  return rest;
}

bool EvaluationQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::vector<std::size_t> EvaluationQueue::devices() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

void EvaluationQueue::serve(Evaluator& evaluator, std::size_t device) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || reference_; });
  if (closed_) return;
  const Problem problem = *problem_;
  const std::shared_ptr<const Reference> reference = reference_;
  lock.unlock();
  try {
    evaluator.begin(problem, reference);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::transient) throw;
    evaluator.begin(problem, reference);
  }
  lock.lock();
  ++serving_;
  try {
    for (;;) {
      changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
      if (closed_) break;
      evaluate_next(evaluator, device, lock);
    }
  } catch (...) {  // evaluate_next() has locked again
    --serving_;
    throw;
  }
  --serving_;
}

/// Unlocks during the evaluation.
void EvaluationQueue::evaluate_next(Evaluator& evaluator, std::size_t device,
                                    std::unique_lock<std::mutex>& lock) {
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_;
  lock.unlock();
  std::optional<Evaluation> evaluation;
  std::exception_ptr error;
  try {
    evaluation = evaluator.evaluate({next.built.plan, next.built.images, next.best_us});
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --running_;
  changed_.notify_all();
  if (error) {
    if (!closed_) waiting_.push_front(std::move(next));
    std::rethrow_exception(error);
  }
  done_.push_back({std::move(next.built), std::move(*evaluation)});
  if (std::find(devices_.begin(), devices_.end(), device) == devices_.end())
    devices_.push_back(device);
}

}  // namespace tilewise
