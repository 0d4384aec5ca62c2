#pragma once
#include <optional>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// The fastest `count` ok records within 10% of the best, fastest first; then the incumbent's, if
/// it is ok and not among them: the stored winner takes part in every race.
std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent);

/// Faster by more than the larger of the two spreads.
bool beats(const Measurement& challenger, const Measurement& incumbent);

/// The record to serve from now on: the fastest of a race, unless the incumbent took part and is
/// not beaten by more than the spread. Null when none is ok.
const Record* select_winner(const std::vector<Record>& raced,
                            const std::optional<Candidate>& incumbent);

}  // namespace tilewise
