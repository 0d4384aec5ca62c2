#pragma once
#include <cstdint>
#include <memory>

#include "tuner/search/strategy.hpp"

namespace tilewise {

/// Another strategy with the cost model's help. At the start they alternate: the model proposes its
/// best predicted candidates from many random starts, best first, every fourth of them uniformly
/// random (so that a wrong model cannot hide the best); `inner` proposes its own. Afterwards
/// `inner` chooses, with all results observed; every sixth proposal is the model's from new draws.
/// With 40 or more results, half of the proposals are the learned model's (tree_ranker.hpp),
/// limited to six times the fastest measured time.
/// A proposal predicted to take over twice as long as the fastest measured so far is mostly set
/// aside, with a probability that grows with the predicted time; over six times, always, until
/// nothing else is left (or after a thousand such proposals in a row). No candidate is lost. Which
/// ones are set aside depends on seed and results alone. Where `predict` gives 0, `inner` goes
/// first and nothing is set aside or learned. Without `predict` it is the same, but the learned
/// model learns times. `space` must outlive the strategy. `brief`: as for make_strategy().
std::unique_ptr<Strategy> make_ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space,
                                       std::uint64_t seed, Predict predict, bool brief = false);

}  // namespace tilewise
