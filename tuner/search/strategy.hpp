#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "templates/space/search_space.hpp"

namespace tilewise {

/// Chooses what to evaluate next. next() may be called many times before results are observed,
/// since compiles run ahead of the device. Deterministic for a seed and an order of results. Not
/// thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// A candidate not proposed before; empty when the space (or what is worth trying) is used up.
  virtual std::optional<Candidate> next() = 0;
  /// `microseconds` is empty for a rejected candidate. Also called for measurements of earlier
  /// runs.
  virtual void observe(const Candidate& candidate, std::optional<double> microseconds) = 0;
  /// A valid candidate to try early: it was good for a similar problem. Called before the first
  /// next(). A strategy with a fixed order ignores it.
  virtual void suggest(const Candidate& candidate) { static_cast<void>(candidate); }
  /// The share of the best time that one more candidate is expected to gain, 0 to 1; empty where
  /// the strategy cannot tell.
  virtual std::optional<double> expected_gain() const { return std::nullopt; }
};

/// The cost model's prediction for a candidate in seconds; 0 where it has none. Must be
/// deterministic.
using Predict = std::function<double(const Candidate&)>;

struct StrategyInfo {
  std::string name;
  std::string summary;
  std::unique_ptr<Strategy> (*make)(const SearchSpace& space, std::uint64_t seed, bool brief,
                                    const Predict& predict);
  /// A search combines it with the cost model and with what it learns (ordered.hpp).
  bool by_model = false;
  /// Tuning runs it on a thread of its own (make_background()) on any device, not on GPUs alone.
  bool on_thread = false;
};

/// exhaustive, random, local: one explicit table.
std::span<const StrategyInfo> strategies();
/// Throws Error(invalid_argument) naming the strategies.
const StrategyInfo& find_strategy(const std::string& name);
/// Throws Error(invalid_argument) naming the strategies. `space` must outlive the strategy.
/// `brief`: for a search of a few dozen candidates, which would end before the usual start does.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space,
                                        std::uint64_t seed, bool brief = false,
                                        const Predict& predict = {});
/// The strategy of a search and of a replay. make_ordered() combines it where the table says so.
std::unique_ptr<Strategy> make_search_strategy(const std::string& name, const SearchSpace& space,
                                               std::uint64_t seed, bool brief = false,
                                               const Predict& predict = {});

}  // namespace tilewise
