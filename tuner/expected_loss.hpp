#pragma once
#include <vector>

#include "matmul/corrections.hpp"
#include "matmul/resolve.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise {

/// What a search of general kernels is expected to gain at a problem that was not tuned: the
/// expected time of what `stored` would serve over that of the best candidate which a descent by
/// expected times finds, less 1; 0 or more. Infinity where nothing stored serves and something can.
/// Expected are the times of the cost model with its corrections. Takes some 50 ms. Deterministic;
/// thread-safe.
double expected_loss(const Problem& problem, const Resolver& stored, const Corrections& corrections,
                     const DeviceInfo& device, const std::vector<const KernelTemplate*>& templates,
                     const Subspace& subspace);

}  // namespace tilewise
