#pragma once
#include <optional>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Whether it was measured and may be served: outcome ok, and a time that is a number above 0.
bool is_ok(const Record& record);
/// Its median in microseconds; infinity when it is not ok.
double time_of(const Record& record);

/// The fastest `count` ok records within 10% of the best, fastest first; then the incumbent's, if
/// it is ok and not among them: whoever is served now is in the race.
std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent);

/// Faster by more than the larger of the two spreads.
bool beats(const Measurement& challenger, const Measurement& incumbent);

/// Who is served from now on: the fastest of a race, unless the incumbent is in it and not beaten
/// by more than the spread. Null when none is ok.
const Record* crown(const std::vector<Record>& raced, const std::optional<Candidate>& incumbent);

}  // namespace tilewise
