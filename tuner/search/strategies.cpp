#include <array>

#include "tilewise/error.hpp"
#include "tuner/search/search.hpp"

namespace tilewise {

std::span<const StrategyInfo> strategies() {
  static const std::array<StrategyInfo, 3> table{{
      {"local", "defaults and a few random samples, then the neighbours of the best", make_local,
       true},
      {"random", "random valid candidates, each once", make_random},
      {"exhaustive", "every valid candidate of a declared subspace, in order", make_exhaustive},
  }};
  return table;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        std::uint64_t seed, bool brief) {
  std::string names;
  for (const StrategyInfo& info : strategies()) {
    if (info.name == name) return info.make(space, seed, brief);
    names += (names.empty() ? "" : ", ") + info.name;
  }
  throw Error(ErrorKind::invalid_argument,
              "unknown strategy \"" + name + "\"; the strategies are " + names);
}

}  // namespace tilewise
