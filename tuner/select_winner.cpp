#include "tuner/select_winner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

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

/// NaN when it was not measured.
double cost_of(const Record& record, const ObjectiveInfo& objective) {
  const double cost = is_ok(record) ? objective.cost(*record.measurement) : 0;
  return cost > 0 && std::isfinite(cost) ? cost : std::numeric_limits<double>::quiet_NaN();
}

/// The largest cost of a winner: nearly the least. NaN when none was measured.
double most_cost(const std::vector<Record>& records, const ObjectiveInfo& objective) {
  double least = std::numeric_limits<double>::quiet_NaN();
  for (const Record& record : records)
    if (const double cost = cost_of(record, objective); cost > 0 && !(cost >= least)) least = cost;
  return (1 + objective.equal_within) * least;
}

}  // namespace

std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent, Objective objective) {
  std::erase_if(records, [](const Record& r) { return !is_ok(r); });
  std::stable_sort(records.begin(), records.end(), faster);
  const auto most = static_cast<std::size_t>(std::max(1, count));
  const ObjectiveInfo& info = objective_info(objective);
  const std::size_t others = std::max(most, info.others);
  std::vector<Record> finalists;
  std::optional<Record> served;
  for (const Record& record : records) {
    const bool close = time_of(record) <= info.within * time_of(records.front());
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
  const ObjectiveInfo& info = objective_info(objective);
  const double most = info.cost ? most_cost(raced, info) : 0;
  const Record* best = nullptr;
  const Record* served = nullptr;
  for (const Record& record : raced) {
    if (!is_ok(record)) continue;
    if (info.cost && !(cost_of(record, info) <= most)) continue;
    if (!best || faster(record, *best)) best = &record;
    if (record.candidate == incumbent) served = &record;
  }
  return served && !beats(*best->measurement, *served->measurement) ? served : best;
}

}  // namespace tilewise
