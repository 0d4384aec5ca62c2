#include "tuner/select_winner.hpp"

#include <algorithm>

#include "tuner/search/record_time.hpp"

namespace tilewise {
namespace {

// A race changes a single measurement by a few percent, hardly by more.
constexpr double kWithin = 1.10;

}  // namespace

std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent) {
  std::erase_if(records, [](const Record& r) { return !is_ok(r); });
  std::stable_sort(records.begin(), records.end(), faster);
  std::vector<Record> finalists;
  for (const Record& record : records) {
    const bool close = time_of(record) <= kWithin * time_of(records.front());
    const bool in_front = close && finalists.size() < static_cast<std::size_t>(std::max(1, count));
    if (in_front || record.candidate == incumbent) finalists.push_back(record);
  }
  return finalists;
}

bool beats(const Measurement& challenger, const Measurement& incumbent) {
  const double spread = std::max(challenger.spread, incumbent.spread);
  return challenger.median_us * (1 + spread) < incumbent.median_us;
}

const Record* select_winner(const std::vector<Record>& raced,
                            const std::optional<Candidate>& incumbent) {
  const Record* best = nullptr;
  const Record* served = nullptr;
  for (const Record& record : raced) {
    if (!is_ok(record)) continue;
    if (!best || faster(record, *best)) best = &record;
    if (record.candidate == incumbent) served = &record;
  }
  return served && !beats(*best->measurement, *served->measurement) ? served : best;
}

}  // namespace tilewise
