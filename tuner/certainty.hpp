#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "vocabulary/record.hpp"

namespace tilewise {

/// The certainty that the record selected by a race is the fastest of the race.
struct Certainty {
  std::size_t rivals = 0;  ///< other finalists of the race
  std::size_t alike = 0;   ///< other finalists that may be as fast or faster
  std::size_t rounds = 0;
  double fastest = 0;  ///< lower bound of the probability that it is the fastest; 0 to 1
  /// Upper bound of the fastest rival's gain, as a share of this record's time; 95% confidence.
  double gain_at_most = 0;
};

/// Computed from the rounds of the race in which `winner` was measured. Ignores `records` of other
/// races. Empty where the winner was not raced, or raced alone.
std::optional<Certainty> certainty_of(const Record& winner, std::span<const Record> records);

/// Whether both records were measured in the same race.
bool same_race(const Record& x, const Record& y);

/// The probability that a variable with Student's t distribution is at most `t`.
double student_probability(double t, std::size_t degrees);
/// The t whose student_probability() is `probability`, 0 < probability < 1.
double student_quantile(double probability, std::size_t degrees);

}  // namespace tilewise
