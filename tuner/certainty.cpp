#include "tuner/certainty.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tilewise {
namespace {

constexpr double kConfidence = 0.95;
constexpr std::size_t kLeastRounds = 3;

bool was_raced(const Record& record) {
  return record.outcome == Outcome::ok && record.measurement &&
         record.measurement->method == kRaceMethod &&
         record.measurement->samples_us.size() >= kLeastRounds;
}

/// The logarithm of a rival's time over the winner's: its mean over rounds, and the standard error
/// of the mean. A round is a pair, so an effect on a whole round (heat, clocks) cancels.
struct Difference {
  double mean = 0, error = 0;
};

Difference difference_of(const std::vector<double>& rival, const std::vector<double>& winner) {
  const auto count = static_cast<double>(winner.size());
  Difference difference;
  std::vector<double> logarithms;
  for (std::size_t i = 0; i < winner.size(); ++i)
    logarithms.push_back(std::log(rival[i] / winner[i]));
  for (const double each : logarithms) difference.mean += each / count;
  double squares = 0;
  for (const double each : logarithms) squares += std::pow(each - difference.mean, 2);
  difference.error = std::sqrt(squares / (count - 1) / count);
  return difference;
}

double probability_of_slower(const Difference& difference, std::size_t degrees) {
  if (difference.error > 0) return student_probability(difference.mean / difference.error, degrees);
  return difference.mean > 0 ? 1 : difference.mean < 0 ? 0 : 0.5;
}

}  // namespace

bool same_race(const Record& x, const Record& y) {
  return was_raced(x) && was_raced(y) && x.problem == y.problem && x.gpu == y.gpu &&
         x.environment == y.environment &&
         x.measurement->samples_us.size() == y.measurement->samples_us.size();
}

/// Paired t statistics on logarithms.
/// - The bound is that of multiple comparisons with the best (Hsu, Annals of Statistics 9, 1981,
///   1026-1034), with Bonferroni's critical value for the number of rivals. It holds although the
///   same data selected the winner.
/// - The probability is the product over rivals of the probability that each is slower (a flat
///   prior). All differences share the winner's time, so they are positively correlated and the
///   product is a lower bound (Slepian, Bell System Technical Journal 41, 1962, 463-501).
std::optional<Certainty> certainty_of(const Record& winner, std::span<const Record> records) {
  std::vector<Difference> differences;
  for (const Record& record : records)
    if (!(record.candidate == winner.candidate) && same_race(record, winner))
      differences.push_back(
          difference_of(record.measurement->samples_us, winner.measurement->samples_us));
  if (differences.empty()) return std::nullopt;
  Certainty certainty;
  certainty.rivals = differences.size();
  certainty.rounds = winner.measurement->samples_us.size();
  certainty.fastest = 1;
  const std::size_t degrees = certainty.rounds - 1;
  const double critical =
      student_quantile(1 - (1 - kConfidence) / static_cast<double>(differences.size()), degrees);
  double gain = 0;  // a logarithm
  for (const Difference& difference : differences) {
    const double at_most = critical * difference.error - difference.mean;
    gain = std::max(gain, at_most);
    certainty.alike += !(at_most < 0);
    certainty.fastest *= probability_of_slower(difference, degrees);
  }
  certainty.gain_at_most = -std::expm1(-gain);
  return certainty;
}

/// The finite series for whole degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 26.7.3 and 26.7.4).
double student_probability(double t, std::size_t degrees) {
  if (std::isnan(t) || degrees == 0) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kPi = 3.14159265358979324;
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double square = std::pow(std::cos(angle), 2);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1, sum = 0;
  for (std::size_t i = odd ? 1 : 0; i + 2 <= degrees; i += 2) {
    sum += term;
    term *= square * static_cast<double>(i + 1) / static_cast<double>(i + 2);
  }
  const double within = odd ? 2 / kPi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return 0.5 + 0.5 * within;
}

double student_quantile(double probability, std::size_t degrees) {
  double below = -1e6, above = 1e6;
  for (int i = 0; i < 100; ++i) {
    const double middle = (below + above) / 2;
    (student_probability(middle, degrees) < probability ? below : above) = middle;
  }
  return (below + above) / 2;
}

}  // namespace tilewise
