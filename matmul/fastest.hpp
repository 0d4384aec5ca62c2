#pragma once
#include <functional>

#include "matmul/resolution.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// Matmul::fastest_within() on the results of `resolve`, which may throw Error(unsupported).
MathMode fastest_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                        const std::function<Resolution(const Problem&)>& resolve);

}  // namespace tilewise
