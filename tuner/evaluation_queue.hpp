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

/// The built candidates of one search that further devices evaluate, all alike with the search's
/// own. The thread of the search adds candidates and takes results. The thread of each further
/// device is in serve() meanwhile. Thread-safe.
class EvaluationQueue {
 public:
  struct Done {
    Built built;
    Evaluation evaluation;
  };

  /// Sets the problem; until then serve() waits.
  void begin(const Problem& problem, std::shared_ptr<const Reference> reference);
  /// Whether fewer candidates wait than there are devices in serve().
  bool wants_more() const;
  /// `best_us` as in EvaluationRequest.
  void add(Built built, double best_us);
  /// The waiting candidate that was added last, for the search's own device; empty without one.
  std::optional<Built> take_back();
  /// A result; empty when there is none now.
  std::optional<Done> take();
  /// Candidates added, neither taken back nor their result taken.
  std::size_t under_way() const;
  /// Drops waiting candidates, waits for evaluations that have begun, and returns the results that
  /// were not taken. serve() returns.
  std::vector<Done> close();
  bool closed() const;

  /// Evaluates candidates until close(). Throws the evaluator's error; the candidate then waits for
  /// another device. `device` is a number for devices().
  void serve(Evaluator& evaluator, std::size_t device);
  /// Those that evaluated at least one candidate.
  std::vector<std::size_t> devices() const;

 private:
  struct Waiting {
    Built built;
    double best_us;
  };
  void evaluate_next(Evaluator& evaluator, std::size_t device, std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;  // guards all below
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
