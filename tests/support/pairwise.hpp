#pragma once
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "templates/space/search_space.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test {

/// Problems for which a template has candidates: large ones, or those of its purpose (few rows, few
/// columns, small products). `alignment` applies to each operand as far as its type allows.
inline std::vector<Problem> typical_problems(const KernelTemplate& kernel, const DeviceInfo& device,
                                             Layout layout, int alignment,
                                             const ProductKind& kind = product_kinds().front(),
                                             std::int64_t batch = 1) {
  std::mt19937_64 generator(1);
  std::vector<Problem> found;
  for (const Size& size :
       {Size{1536, 1536, 1536}, {16, 1536, 1536}, {1536, 16, 1536}, {48, 48, 48}}) {
    Problem problem = with_kind(make_problem(layout, size.m, size.n, size.k, alignment), kind);
    problem.batch = batch;
    if (!found.empty() && (found.front().m == found.front().n || size.m == size.n)) break;
    if (!kernel.supports(problem, device)) continue;
    // Most problems have a default configuration, which is found without a search.
    const Configuration usual = kernel.default_configuration(problem, device);
    if (rejection(kernel, problem, usual, device).empty() ||
        SearchSpace(problem, device, {&kernel}).random(generator))
      found.push_back(problem);
  }
  return found;
}

/// The values of two parameters in one configuration, as hashes of name and value; a parameter is
/// paired with itself too.
using ValuePair = std::pair<std::size_t, std::size_t>;

inline std::vector<ValuePair> pairs_of(const Configuration& configuration) {
  std::vector<std::size_t> hashes;
  for (const auto& [name, value] : configuration.values())
    hashes.push_back(std::hash<std::string>{}(name + '=' + std::to_string(value)));
  std::vector<ValuePair> pairs;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    for (std::size_t j = i; j < hashes.size(); ++j) pairs.emplace_back(hashes[i], hashes[j]);
  return pairs;
}

/// Valid candidates of a one-template space that together have every pair of parameter values found
/// in random draws: most mistakes need only two values. At most `limit` candidates; deterministic
/// for a seed.
inline std::vector<Candidate> pairwise_cover(const SearchSpace& space, std::uint64_t seed,
                                             std::size_t limit, int draws = 500) {
  std::mt19937_64 generator(seed);
  std::vector<std::pair<Candidate, std::vector<ValuePair>>> pool;
  for (const Candidate& candidate : space.defaults())
    pool.emplace_back(candidate, pairs_of(candidate.configuration));
  for (int i = 0; i < draws; ++i)
    if (auto drawn = space.random(generator))
      pool.emplace_back(*drawn, pairs_of(drawn->configuration));

  std::set<ValuePair> covered;
  std::vector<Candidate> chosen;
  while (chosen.size() < limit && !pool.empty()) {
    // The best of 40 random choices is nearly as good as the best of all, and much cheaper.
    std::size_t best = 0, best_gain = 0;
    for (int tries = 0; tries < 40; ++tries) {
      const std::size_t at = chosen.empty() ? 0 : generator() % pool.size();
      std::size_t gain = 0;
      for (const ValuePair& pair : pool[at].second) gain += !covered.contains(pair);
      if (gain > best_gain) best = at, best_gain = gain;
    }
    if (best_gain == 0) {  // none adds a pair, so all are searched once
      for (std::size_t at = 0; at < pool.size() && best_gain == 0; ++at)
        for (const ValuePair& pair : pool[at].second)
          if (!covered.contains(pair)) best = at, best_gain = 1;
      if (best_gain == 0) break;
    }
    covered.insert(pool[best].second.begin(), pool[best].second.end());
    chosen.push_back(pool[best].first);
    pool[best] = std::move(pool.back());
    pool.pop_back();
  }
  return chosen;
}

}  // namespace tilewise::test
