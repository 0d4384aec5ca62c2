#pragma once
#include <vector>

#include "matmul/corrections.hpp"
#include "matmul/resolve.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// The expected gain of a search of general kernels at a problem without tuning: the expected time
/// of the candidate that `stored` would serve, over that of the best candidate that a descent by
/// expected times finds, minus 1; 0 or more. Infinity where only the descent finds a candidate.
/// Expected times are those of the cost model with its corrections. Takes some 50 ms.
/// Deterministic; thread-safe.
double expected_loss(const Problem& problem, const Resolver& stored, const Corrections& corrections,
                     const DeviceInfo& device, const std::vector<const KernelTemplate*>& templates,
                     const Subspace& subspace);

/// The expected seconds of the best candidate that the descent finds; 0 where the cost model has no
/// estimate, or no candidate is valid. corrections: null: those of the cost model alone. As above.
double expected_seconds(const Problem& problem, const Corrections* corrections,
                        const DeviceInfo& device);

}  // namespace tilewise
