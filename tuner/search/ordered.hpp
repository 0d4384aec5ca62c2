#pragma once
#include <cstdint>
#include <memory>

#include "tuner/search/strategy.hpp"

namespace tilewise {

/// Combines another strategy with the cost model. At the start they alternate. The model proposes
/// its best predicted candidates from many random starts, best first; every fourth is uniformly
/// random, so that a wrong model cannot hide the best. `inner` proposes its own candidates.
/// Afterwards `inner` chooses, with all results observed; every sixth proposal is the model's from
/// new draws. With 40 or more results, half of the proposals are the learned model's
/// (tree_ranker.hpp), limited to six times the fastest measured time.
/// A proposal predicted to take over twice as long as the fastest measured so far is mostly set
/// aside, with a probability that grows with the predicted time. Over six times, it is always set
/// aside until nothing else is left (or after a thousand such proposals in a row). No candidate is
/// lost. Seed and results alone determine which ones are set aside. Where `predict` gives 0,
/// `inner` goes first and nothing is set aside or learned. Without `predict` it is the same, but
/// the learned model learns times. `space` must outlive the strategy. `brief`: as for
/// make_strategy().
std::unique_ptr<Strategy> make_ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space,
                                       std::uint64_t seed, Predict predict, bool brief = false);

}  // namespace tilewise
