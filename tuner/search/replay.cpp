#include "tuner/search/replay.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>

#include "tuner/search/strategy.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

using Clock = std::chrono::steady_clock;

struct Run {
  std::vector<double> reached;
  double seconds = 0;  // spent in the strategy
  std::int64_t proposals = 0;
};

Run run_once(const RecordedSpace& recorded, const SearchSpace& space, const std::string& name,
             std::uint64_t seed, const ReplayOptions& options) {
  const double best = recorded.best();
  const auto strategy = make_search_strategy(name, space, seed);
  std::deque<Candidate> under_way;
  Run run;
  double found = std::numeric_limits<double>::infinity();
  while (run.reached.size() < static_cast<std::size_t>(options.evaluations)) {
    const auto begin = Clock::now();
    while (under_way.size() < std::max<std::size_t>(1, options.under_way)) {
      std::optional<Candidate> candidate = strategy->next();
      if (!candidate) break;
      ++run.proposals;
      under_way.push_back(std::move(*candidate));
    }
    if (under_way.empty()) break;
    const std::optional<double> us = recorded.times.at(under_way.front());
    strategy->observe(under_way.front(), us);
    run.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    under_way.pop_front();
    if (us) found = std::min(found, *us);
    run.reached.push_back(best / found);
  }
  run.reached.resize(static_cast<std::size_t>(options.evaluations), best / found);
  return run;
}

}  // namespace

ReplayResult replay(const RecordedSpace& recorded, const std::string& strategy,
                    const ReplayOptions& options) {
  const SearchSpace space = recorded.space();
  std::vector<Run> runs(static_cast<std::size_t>(options.repeats));
  parallel_for(options.repeats, options.threads, [&](std::int64_t i, int) {
    runs[static_cast<std::size_t>(i)] =
        run_once(recorded, space, strategy, static_cast<std::uint64_t>(i) + 1, options);
  });
  ReplayResult result{strategy, std::vector<double>(static_cast<std::size_t>(options.evaluations)),
                      0};
  double seconds = 0, proposals = 0;
  for (const Run& run : runs) {
    for (std::size_t i = 0; i < result.reached.size(); ++i)
      result.reached[i] += run.reached[i] / options.repeats;
    seconds += run.seconds;
    proposals += static_cast<double>(run.proposals);
  }
  if (proposals > 0) result.ms_per_proposal = 1e3 * seconds / proposals;
  return result;
}

std::vector<double> random_expectation(const RecordedSpace& recorded, int evaluations) {
  std::vector<double> sorted;
  for (const auto& [candidate, us] : recorded.times)
    if (us) sorted.push_back(*us);
  std::sort(sorted.begin(), sorted.end());
  const double count = static_cast<double>(recorded.times.size());
  std::vector<double> expected;
  for (int n = 1; n <= evaluations; ++n) {
    double none_faster = 1, sum = 0;  // the probability that no faster one was drawn
    for (std::size_t i = 0; i < sorted.size() && none_faster > 0; ++i) {
      const double drawn = std::min(1.0, n / (count - static_cast<double>(i)));
      sum += none_faster * drawn * sorted.front() / sorted[i];
      none_faster *= 1 - drawn;
    }
    expected.push_back(sum);
  }
  return expected;
}

}  // namespace tilewise
