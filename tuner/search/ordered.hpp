#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "tuner/search/strategy.hpp"

namespace tilewise {

/// What the cost model expects of a candidate: seconds, or 0 where it cannot tell. The same for the
/// same candidate.
using Predict = std::function<double(const Candidate&)>;

/// Another strategy, which the cost model helps. At first they take turns: the model proposes what
/// it expects most of, from many random starts, best first; then `inner`; every fourth of the
/// model's is uniformly random, so that a wrong model cannot hide the best. From then on `inner`
/// chooses, with all results known to it; half of the time, once there are 40, what measurements
/// have made of the model (learned_model.hpp) does, as long as it expects no more than six times
/// the fastest measured. Of the others, what is predicted to take over twice as long as the fastest
/// measured so far mostly waits, the more so the longer it is predicted to take; over
/// six times, it waits until nothing else is left (for practical purposes: a thousand such
/// proposals in a row end the waiting of the best predicted of them). Nothing of the space is lost.
/// What waits depends on seed and results alone. Where nothing is predicted (0), `inner` goes first
/// and nothing waits. `space` must outlive the strategy.
std::unique_ptr<Strategy> make_ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space,
                                       std::uint64_t seed, Predict predict);

}  // namespace tilewise
