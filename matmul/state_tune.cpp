// OnMiss::tune: a search before the first product of a problem.
#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

namespace {

constexpr int kMostFailedSearches = 3;  // in a row: then the cause is not one problem

}  // namespace

/// Called without make_mutex_: products of other problems are made during a search.
void Matmul::State::tune(const Problem& problem) {
  if (!parts_.tune || problem.k == 0) return;
  Problem searched = problem;
  searched.pointers = false;  // served by what was tuned for batches with strides
  if (!is_to_be_tuned(searched)) return;
  {
    const std::lock_guard making(make_mutex_);
    if (prepared_.contains(problem)) return;
  }
  (void)resolution(searched);  // throws where the device does no such product
  const std::lock_guard turn(search_mutex_);
  if (!is_to_be_tuned(searched)) return;
  const std::string why_not = search_for(searched);
  bool last = false;
  {
    const std::lock_guard lock(searched_mutex_);
    searched_.insert(searched);
    failed_searches_ = why_not.empty() ? 0 : failed_searches_ + 1;
    last = failed_searches_ == kMostFailedSearches;
  }
  if (!why_not.empty())
    warn_once(to_string(searched) +
              " could not be tuned, and is served as by on_miss = serve: " + why_not);
  if (last)
    warn_once(std::to_string(kMostFailedSearches) +
              " searches in a row failed: no further problem is tuned by this Matmul");
}

/// Whether nothing was tuned for it, and no search was made.
bool Matmul::State::is_to_be_tuned(const Problem& problem) {
  if (stored()->has_winner(problem)) return false;
  const std::lock_guard lock(searched_mutex_);
  return failed_searches_ < kMostFailedSearches && !searched_.contains(problem);
}

/// Returns "" when the problem has a winner, else why it has none.
std::string Matmul::State::search_for(const Problem& problem) {
  try {
    read_stored();  // another process may have tuned it
    if (stored()->has_winner(problem)) return "";
    const std::string why_not = parts_.tune(problem, device_->info());
    read_stored();
    if (stored()->has_winner(problem)) return "";
    return why_not.empty() ? "the search found no winner" : why_not;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tilewise
