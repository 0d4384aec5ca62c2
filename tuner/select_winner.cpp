#include "tuner/select_winner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tuner/evaluate/sampler.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

// A candidate that is slower by up to this factor may need less energy.
constexpr double kWithinByEnergy = 1.30;
constexpr std::size_t kOthersByEnergy = 10;
// Energies that differ by less count as equal: the counter's resolution is some tenths of a percent
// of a span, and the temperature of the chip varies between spans.
constexpr double kAlikeEnergy = 0.01;
// Number of parameters in which a diverse finalist differs from all others.
constexpr std::size_t kDifferences = 4;

std::size_t differences(const Configuration& x, const Configuration& y) {
  std::size_t count = 0;
  for (const auto& [name, value] : x.values()) {
    const int* other = y.find(name);
    count += !other || *other != value;
  }
  return count;
}

bool differs(const Candidate& x, const Candidate& y) {
  return x.kernel_template != y.kernel_template ||
         differences(x.configuration, y.configuration) >= kDifferences;
}

/// mJ per product; NaN when it was not measured.
double energy_of(const Record& record) {
  const double mj = is_ok(record) ? record.measurement->energy_mj : 0;
  return mj > 0 && std::isfinite(mj) ? mj : std::numeric_limits<double>::quiet_NaN();
}

/// NaN when no energy was measured.
double least_energy(const std::vector<Record>& records) {
  double least = std::numeric_limits<double>::quiet_NaN();
  for (const Record& record : records)
    if (const double mj = energy_of(record); mj > 0 && !(mj >= least)) least = mj;
  return least;
}

}  // namespace

std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent, Objective objective) {
  std::erase_if(records, [](const Record& r) { return !is_ok(r); });
  std::stable_sort(records.begin(), records.end(), faster);
  const auto most = static_cast<std::size_t>(std::max(1, count));
  const bool by_energy = objective == Objective::energy;
  const double within = by_energy ? kWithinByEnergy : kFinalistsWithin;
  const std::size_t others = by_energy ? std::max(most, kOthersByEnergy) : most;
  std::vector<Record> finalists;
  std::optional<Record> served;
  for (const Record& record : records) {
    const bool close = time_of(record) <= within * time_of(records.front());
    const bool in_front = finalists.size() < most;
    const bool other = finalists.size() < most + others &&
                       std::all_of(finalists.begin(), finalists.end(), [&](const Record& f) {
                         return differs(record.candidate, f.candidate);
                       });
    if (close && (in_front || other))
      finalists.push_back(record);
    else if (record.candidate == incumbent)
      served = record;
  }
  if (served) finalists.push_back(*std::move(served));
  return finalists;
}

bool beats(const Measurement& challenger, const Measurement& incumbent) {
  const double spread = std::max(challenger.spread, incumbent.spread);
  return challenger.median_us * (1 + spread) < incumbent.median_us;
}

const Record* select_winner(const std::vector<Record>& raced,
                            const std::optional<Candidate>& incumbent, Objective objective) {
  const double most_mj =
      objective == Objective::energy ? (1 + kAlikeEnergy) * least_energy(raced) : 0;
  const Record* best = nullptr;
  const Record* served = nullptr;
  for (const Record& record : raced) {
    if (!is_ok(record)) continue;
    if (objective == Objective::energy && !(energy_of(record) <= most_mj)) continue;
    if (!best || faster(record, *best)) best = &record;
    if (record.candidate == incumbent) served = &record;
  }
  return served && !beats(*best->measurement, *served->measurement) ? served : best;
}

}  // namespace tilewise
