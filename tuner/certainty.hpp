#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "vocabulary/record.hpp"

namespace tilewise {

/// How sure it is that the record that a race selected is the fastest of the race.
struct Certainty {
  std::size_t rivals = 0;  ///< other finalists of the race
  std::size_t alike = 0;   ///< of these, the ones that may be as fast, or faster
  std::size_t rounds = 0;
  double fastest = 0;  ///< the probability that it is the fastest, at least; 0 to 1
  /// The share of its time by which the fastest rival is faster, at most, with a confidence of 95%.
  double gain_at_most = 0;
};

/// From the rounds of the race in which `winner` was measured. Of `records` those of that race take
/// part. Empty where the winner was not raced, or raced alone.
std::optional<Certainty> certainty_of(const Record& winner, std::span<const Record> records);

/// Whether both were measured in the same race.
bool same_race(const Record& x, const Record& y);

/// The probability that a variable with Student's t distribution is at most `t`.
double student_probability(double t, std::size_t degrees);
/// The t whose student_probability() is `probability`, 0 < probability < 1.
double student_quantile(double probability, std::size_t degrees);

}  // namespace tilewise
