#include "tuner/search/warm_start.hpp"

#include <algorithm>

#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

// With more, a search would begin by repeating other problems' candidates.
constexpr std::size_t kProblems = 3;
constexpr std::size_t kOfEach = 4;
// Number of candidates that are expected to be fastest, and how many of them a search takes.
constexpr std::size_t kExpected = 24, kShipped = 6;

/// Whether kernels transfer: element widths matter, element types hardly do (bf16 and f16 are
/// similar).
bool resemble(const Problem& x, const Problem& y) {
  return bytes_of(x.a.type) == bytes_of(y.a.type) && bits_of(x.b.type) == bits_of(y.b.type) &&
         bytes_of(x.c.type) == bytes_of(y.c.type) &&
         bytes_of(x.accumulator) == bytes_of(y.accumulator) && x.math == y.math && x != y;
}

/// Another layout counts as much as a size four times as large.
double unlikeness(const Problem& x, const Problem& y) {
  return distance_between(x, y) + (layout_of(x) == layout_of(y) ? 0 : 2);
}

std::vector<Problem> nearest_problems(const Database& database, const Problem& problem,
                                      const std::string& gpu) {
  std::vector<Problem> others;
  for (const Winner& winner : database.winners(gpu))
    if (resemble(winner.record.problem, problem)) others.push_back(winner.record.problem);
  std::stable_sort(others.begin(), others.end(), [&](const Problem& x, const Problem& y) {
    return unlikeness(x, problem) < unlikeness(y, problem);
  });
  others.resize(std::min(others.size(), kProblems));
  return others;
}

}  // namespace

std::vector<Candidate> transferred_candidates(const Database& database, const SearchSpace& space,
                                              const std::string& gpu) {
  std::vector<Candidate> good;
  for (const Problem& problem : nearest_problems(database, space.problem(), gpu)) {
    std::vector<Record> records =
        database.records({.problem = problem, .gpu = gpu, .outcome = Outcome::ok});
    std::stable_sort(records.begin(), records.end(), faster);
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

std::vector<Candidate> shipped_candidates(const Database& database, const SearchSpace& space) {
  const auto& templates = space.templates();
  const bool any_ship = std::any_of(
      templates.begin(), templates.end(),
      [](const KernelTemplate* kernel) { return known_template(kernel->name) == kernel; });
  if (!any_ship) return {};
  const Resolver shipped({}, space.device(), "", portfolios_of_capability(space.device()),
                         [&](const Problem& kind) {
                           return own_or_shipped_corrections(database, kind, space.device());
                         });
  std::vector<Candidate> good;
  for (Resolver::Expected& one : shipped.expected(space.problem(), kExpected))
    if (good.size() < kShipped && one.us > 0 && space.allows(one.candidate) &&
        std::find(good.begin(), good.end(), one.candidate) == good.end())
      good.push_back(std::move(one.candidate));
  return good;
}

}  // namespace tilewise
