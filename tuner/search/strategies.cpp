#include <array>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/search/ordered.hpp"
#include "tuner/search/search.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {

std::span<const StrategyInfo> strategies() {
  static const std::array<StrategyInfo, 4> table{{
      {"local", "the neighbours of the best, and what trees learn from the results", make_local,
       true},
      {"model", "the largest expected gain by a Gaussian process", make_model, false, true},
      {"random", "random valid candidates, each once", make_random},
      {"exhaustive", "every valid candidate of a declared subspace, in order", make_exhaustive},
  }};
  return table;
}

const StrategyInfo& find_strategy(const std::string& name) {
  for (const StrategyInfo& info : strategies())
    if (info.name == name) return info;
  throw Error(ErrorKind::invalid_argument, "unknown strategy \"" + name +
                                               "\"; the strategies are " +
                                               join(strategies(), ", ", &StrategyInfo::name));
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        std::uint64_t seed, bool brief, const Predict& predict) {
  return find_strategy(name).make(space, seed, brief, predict);
}

std::unique_ptr<Strategy> make_search_strategy(const std::string& name, const SearchSpace& space,
                                               std::uint64_t seed, bool brief,
                                               const Predict& predict) {
  auto strategy = make_strategy(name, space, seed, brief, predict);
  if (!find_strategy(name).by_model) return strategy;
  return make_ordered(std::move(strategy), space, seed, predict, brief);
}

}  // namespace tilewise
