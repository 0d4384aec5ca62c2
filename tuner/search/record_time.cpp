#include "tuner/search/record_time.hpp"

#include <cmath>
#include <limits>

namespace tilewise {

bool is_ok(const Record& record) {
  return record.outcome == Outcome::ok && record.measurement && record.measurement->median_us > 0 &&
         std::isfinite(record.measurement->median_us);
}

double time_of(const Record& record) {
  return is_ok(record) ? record.measurement->median_us : std::numeric_limits<double>::infinity();
}

bool faster(const Record& x, const Record& y) { return time_of(x) < time_of(y); }

}  // namespace tilewise
