#pragma once
#include "vocabulary/record.hpp"

namespace tilewise {

/// Whether the candidate was timed and may be served: outcome ok and a time above 0.
bool is_ok(const Record& record);
/// The median in microseconds; infinity when the record is not ok.
double time_of(const Record& record);
/// Compares by time_of().
bool faster(const Record& x, const Record& y);

}  // namespace tilewise
