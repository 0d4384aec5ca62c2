#include <cmath>
#include <limits>
#include <set>

#include "tuner/cover.hpp"

namespace tilewise {
namespace {

using CandidateTimes = std::vector<std::pair<std::size_t, double>>;

double best_of(const CandidateTimes& times, const std::vector<bool>& dropped, std::size_t without,
               std::size_t* chosen = nullptr) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [candidate, us] : times)
    if (!dropped[candidate] && candidate != without && us < best) {
      best = us;
      if (chosen) *chosen = candidate;
    }
  return best;
}

}  // namespace

double mean_loss(const std::vector<const CoverPoint*>& points) {
  double sum = 0;
  std::size_t count = 0;
  for (const CoverPoint* point : points)
    if (point->has_loss()) {
      sum += std::log1p(point->loss());
      ++count;
    }
  return count == 0 ? 0 : std::expm1(sum / static_cast<double>(count));
}

std::vector<std::size_t> choose_few(const std::vector<CandidateTimes>& times, std::size_t most) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t candidates = 0;
  for (const CandidateTimes& point : times)
    for (const auto& [candidate, us] : point) candidates = std::max(candidates, candidate + 1);
  std::vector<bool> dropped(candidates, false);
  std::vector<std::size_t> choice(times.size(), kNone);
  for (;;) {
    std::set<std::size_t> used;
    for (std::size_t i = 0; i < times.size(); ++i) {
      best_of(times[i], dropped, kNone, &choice[i]);
      used.insert(choice[i]);
    }
    if (used.size() <= std::max<std::size_t>(most, 1)) return choice;
    std::size_t least = kNone;
    double least_loss = std::numeric_limits<double>::infinity();
    for (const std::size_t candidate : used) {
      double loss = 0;
      for (std::size_t i = 0; i < times.size(); ++i)
        if (choice[i] == candidate)
          loss +=
              std::log(best_of(times[i], dropped, candidate) / best_of(times[i], dropped, kNone));
      if (loss < least_loss) {
        least_loss = loss;
        least = candidate;
      }
    }
    if (least == kNone) return choice;  // every one is some point's last
    dropped[least] = true;
  }
}

}  // namespace tilewise
