#include "matmul/searches_on_miss.hpp"

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr int kMostFailures = 3;  // failures in a row after which the cause is not a single problem

/// Batches by pointers are served by kernels tuned for batches with strides.
Problem with_strides(Problem problem) {
  problem.pointers = false;
  return problem;
}

}  // namespace

bool SearchesOnMiss::is_due(const Problem& problem) {
  if (!tune_ || problem.k == 0 || winners_.has(with_strides(problem))) return false;
  const std::lock_guard lock(mutex_);
  return failures_ < kMostFailures && !searched_.contains(with_strides(problem));
}

void SearchesOnMiss::search_for(const Problem& asked) {
  const Problem problem = with_strides(asked);
  (void)winners_.resolve(problem, {});  // throws if the device does not support the product
  const std::lock_guard turn(search_mutex_);
  if (!is_due(problem)) return;
  const std::string why_not = search(problem);
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    searched_.insert(problem);
    failures_ = why_not.empty() ? 0 : failures_ + 1;
    last = failures_ == kMostFailures;
  }
  if (!why_not.empty())
    warnings_.once(to_string(problem) +
                   " could not be tuned, and is served as by on_miss = serve: " + why_not);
  if (last)
    warnings_.once(std::to_string(kMostFailures) +
                   " searches in a row failed: no further problem is tuned by this Matmul");
}

/// Returns "" if the problem has a winner, otherwise the reason why it has none.
std::string SearchesOnMiss::search(const Problem& problem) {
  try {
    winners_.read();  // another process may have tuned it
    if (winners_.has(problem)) return "";
    const std::string why_not = tune_(problem, device_);
    winners_.read();
    if (winners_.has(problem)) return "";
    return why_not.empty() ? "the search found no winner" : why_not;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tilewise
