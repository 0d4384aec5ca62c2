#include "tuner/warm_start.hpp"

#include <algorithm>

#include "matmul/resolve.hpp"
#include "tuner/crown.hpp"

namespace tilewise {
namespace {

// With more, a search would begin by repeating others' instead of looking for itself.
constexpr std::size_t kProblems = 3;
constexpr std::size_t kOfEach = 4;

std::vector<Problem> nearest_problems(const Database& database, const Problem& problem,
                                      const std::string& gpu) {
  std::vector<Problem> others;
  for (const Winner& winner : database.winners(gpu)) {
    const Problem& other = winner.record.problem;
    if (same_kind(other, problem) && other != problem) others.push_back(other);
  }
  std::stable_sort(others.begin(), others.end(), [&](const Problem& x, const Problem& y) {
    return distance_between(x, problem) < distance_between(y, problem);
  });
  others.resize(std::min(others.size(), kProblems));
  return others;
}

}  // namespace

std::vector<Candidate> good_elsewhere(const Database& database, const SearchSpace& space,
                                      const std::string& gpu) {
  std::vector<Candidate> good;
  for (const Problem& problem : nearest_problems(database, space.problem(), gpu)) {
    std::vector<Record> records =
        database.records({.problem = problem, .gpu = gpu, .outcome = Outcome::ok});
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& x, const Record& y) { return time_of(x) < time_of(y); });
    std::size_t taken = 0;
    for (const Record& record : records) {
      if (taken == kOfEach || !is_ok(record)) break;
      if (!space.contains(record.candidate)) continue;
      ++taken;
      if (std::find(good.begin(), good.end(), record.candidate) == good.end()) {
        good.push_back(record.candidate);
      }
    }
  }
  return good;
}

}  // namespace tilewise
