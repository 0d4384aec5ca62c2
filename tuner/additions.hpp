#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "matmul/corrections.hpp"
#include "vocabulary/record.hpp"

/// The records that cover() adds to the winners of its points, for the sizes between the points.
namespace tilewise {

/// Selects columns of `times` ([row][column], infinity: the column cannot serve) greedily and calls
/// `add` for each. Each step takes the column allowed by `may_add` that shortens the rows' best
/// times most, compared with `base` (per row) and the columns added so far. Ends when no column
/// gains more than `least`, the mean over rows of the logarithm of the speedup.
void choose_gaining(std::vector<double> base, const std::vector<std::vector<double>>& times,
                    const std::function<bool(std::size_t)>& may_add,
                    const std::function<void(std::size_t)>& add, double least);

/// The expected seconds of each candidate at each problem ([problem][candidate]), by the cost model
/// and its corrections; infinity where a candidate is not valid.
std::vector<std::vector<double>> expected_times(const std::vector<Candidate>& candidates,
                                                const std::vector<Problem>& problems,
                                                const Corrections& corrections,
                                                const DeviceInfo& device, int threads);

/// Chooses `measured` records of general kernels with the largest expected gain at `problems` over
/// the candidates in `serving`: at most `room` per layout and one per problem. Expected times are
/// those of the cost model with its corrections.
std::vector<Record> choose_additions(const std::vector<Candidate>& serving,
                                     const std::vector<Record>& measured,
                                     const std::vector<Problem>& problems,
                                     std::map<Layout, std::size_t> room,
                                     const Corrections& corrections, const DeviceInfo& device,
                                     int threads);

}  // namespace tilewise
