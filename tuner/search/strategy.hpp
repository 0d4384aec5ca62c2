#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "templates/space/search_space.hpp"

namespace tilewise {

/// Chooses the next candidate to evaluate. next() may be called many times before results are
/// observed, since compiles run ahead of the device. Deterministic for a seed and an order of
/// results. Not thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// A candidate not proposed before; empty when the space, or its promising part, is exhausted.
  virtual std::optional<Candidate> next() = 0;
  /// `microseconds` is empty for a rejected candidate. Also called for measurements of earlier
  /// runs.
  virtual void observe(const Candidate& candidate, std::optional<double> microseconds) = 0;
  /// A valid candidate to try early: it was good for a similar problem. Call before the first
  /// next(). A strategy with a fixed order ignores it.
  virtual void suggest(const Candidate& candidate) { static_cast<void>(candidate); }
  /// The expected gain of one more candidate as a share of the best time, 0 to 1; empty where the
  /// strategy has no estimate.
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
  /// A search combines it with the cost model and a learned model (ordered.hpp).
  bool by_model = false;
  /// Tuning runs it on a thread of its own (make_background()) on any device, not only on GPUs.
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
/// The strategy of a search or replay, combined by make_ordered() where the table requires it.
std::unique_ptr<Strategy> make_search_strategy(const std::string& name, const SearchSpace& space,
                                               std::uint64_t seed, bool brief = false,
                                               const Predict& predict = {});

}  // namespace tilewise
