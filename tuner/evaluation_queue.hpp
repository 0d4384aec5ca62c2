#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "matmul/build.hpp"
#include "tuner/evaluate/evaluator.hpp"

namespace tilewise {

/// The built candidates of one search that further devices evaluate. These devices are identical to
/// the search's own. The thread of the search adds candidates and takes results, while each further
/// device's thread is in serve(). Thread-safe.
class EvaluationQueue {
 public:
  struct Done {
    Built built;
    Evaluation evaluation;
  };

  /// Sets the problem; until then serve() waits.
  void begin(const Problem& problem, std::shared_ptr<const Reference> reference);
  /// Whether fewer candidates wait than devices are in serve().
  bool wants_more() const;
  /// `best_us` as in EvaluationRequest.
  void add(Built built, double best_us);
  /// The last added candidate that still waits, for the search's own device; empty without one.
  std::optional<Built> take_back();
  /// A result; empty when there is none yet.
  std::optional<Done> take();
  /// Added candidates that were not taken back and whose results were not taken.
  std::size_t under_way() const;
  /// Drops waiting candidates, waits for running evaluations, and returns the results that were not
  /// taken. serve() returns.
  std::vector<Done> close();
  bool closed() const;

  /// Evaluates candidates until close(). Rethrows the evaluator's error; the candidate then waits
  /// for another device. `device` is a number for devices().
  void serve(Evaluator& evaluator, std::size_t device);
  /// The devices that evaluated at least one candidate.
  std::vector<std::size_t> devices() const;

 private:
  struct Waiting {
    Built built;
    double best_us;
  };
  void evaluate_next(Evaluator& evaluator, std::size_t device, std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  bool closed_ = false;
  std::optional<Problem> problem_;
  std::shared_ptr<const Reference> reference_;
  std::size_t serving_ = 0;  ///< devices in serve() that have the operands
  std::size_t running_ = 0;
  std::deque<Waiting> waiting_;
  std::deque<Done> done_;
  std::vector<std::size_t> devices_;
};

}  // namespace tilewise
