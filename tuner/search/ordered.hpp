#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "tuner/strategy.hpp"

namespace tilewise {

/// What the cost model expects of a candidate: seconds, or 0 where it cannot tell. The same for the
/// same candidate.
using Predict = std::function<double(const Candidate&)>;

/// Another strategy, which the cost model helps. At first they take turns: `inner` proposes, then
/// the model what it expects most of, from several random starts; every fourth of the model's is
/// uniformly random, so that a wrong model cannot hide the best. From then on `inner` chooses, with
/// all results known to it. What is predicted to take much longer than the fastest measured so far
/// is mostly set aside, and comes when nothing else is left: nothing of the space is lost. What is
/// set aside depends on seed and results alone. `space` must outlive the strategy.
std::unique_ptr<Strategy> make_ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space,
                                       std::uint64_t seed, Predict predict);

}  // namespace tilewise
