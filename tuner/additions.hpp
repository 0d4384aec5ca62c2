#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "matmul/corrections.hpp"
#include "vocabulary/record.hpp"

/// What cover() adds to the winners of its points, for the sizes between them.
namespace tilewise {

/// Calls `add` for columns of `times` ([row][column], infinity: it cannot serve): greedily, each
/// time the one of those that `may_add` allows that shortens the best time of the rows most, beside
/// `base` (of each row). Ends where none gains more than `least` in the mean over rows of the
/// logarithm. A column that was added gains nothing more.
void choose_gaining(std::vector<double> base, const std::vector<std::vector<double>>& times,
                    const std::function<bool(std::size_t)>& may_add,
                    const std::function<void(std::size_t)>& add, double least);

/// Of `measured` records of general kernels, those whose candidates are expected to gain most at
/// `problems` beside the candidates in `serving`: at most `room` of each layout, one of each
/// problem. Expected are the times of the cost model with its corrections.
std::vector<Record> choose_additions(const std::vector<Candidate>& serving,
                                     const std::vector<Record>& measured,
                                     const std::vector<Problem>& problems,
                                     std::map<Layout, std::size_t> room,
                                     const Corrections& corrections, const DeviceInfo& device,
                                     int threads);

}  // namespace tilewise
