#include "tuner/additions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "matmul/prediction.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A smaller gain does not justify a further image.
constexpr double kLeastGain = 2e-4;

double expected_seconds(const Candidate& candidate, const Problem& problem,
                        const Corrections& corrections, const DeviceInfo& device) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  if (!rejection(kernel, problem, candidate.configuration, device).empty() ||
      does_in_vain(kernel, candidate.configuration, problem, device))
    return kNever;
  const Cost cost = estimate(plan_of(candidate, problem, device), device);
  return cost.seconds > 0 ? cost.seconds * corrections.factor(candidate, problem, cost) : kNever;
}

}  // namespace

void choose_gaining(std::vector<double> base, const std::vector<std::vector<double>>& times,
                    const std::function<bool(std::size_t)>& may_add,
                    const std::function<void(std::size_t)>& add, double least) {
  const std::size_t columns = times.empty() ? 0 : times.front().size();
  // A row that nothing serves counts as served in 100 times the time of its fastest column.
  for (std::size_t row = 0; row < times.size(); ++row)
    if (columns > 0 && !std::isfinite(base[row]))
      base[row] = 100 * *std::min_element(times[row].begin(), times[row].end());
  const auto gain = [&](std::size_t row, std::size_t column) {
    const double time = times[row][column];
    return time < base[row] ? std::log(base[row] / time) : 0.0;
  };
  for (;;) {
    std::size_t best = columns;
    double most = least * static_cast<double>(times.size());
    for (std::size_t column = 0; column < columns; ++column) {
      if (!may_add(column)) continue;
      double sum = 0;
      for (std::size_t row = 0; row < times.size(); ++row) sum += gain(row, column);
      if (sum <= most) continue;
      most = sum;
      best = column;
    }
    if (best == columns) return;
    for (std::size_t row = 0; row < times.size(); ++row)
      base[row] = std::min(base[row], times[row][best]);
    add(best);
  }
}

std::vector<std::vector<double>> expected_times(const std::vector<Candidate>& candidates,
                                                const std::vector<Problem>& problems,
                                                const Corrections& corrections,
                                                const DeviceInfo& device, int threads) {
  std::vector<std::vector<double>> times(problems.size());
  parallel_for(static_cast<std::int64_t>(problems.size()), threads, [&](std::int64_t i, int) {
    const auto row = static_cast<std::size_t>(i);
    for (const Candidate& candidate : candidates)
      times[row].push_back(expected_seconds(candidate, problems[row], corrections, device));
  });
  return times;
}

std::vector<Record> choose_additions(const std::vector<Candidate>& serving,
                                     const std::vector<Record>& measured,
                                     const std::vector<Problem>& problems,
                                     std::map<Layout, std::size_t> room,
                                     const Corrections& corrections, const DeviceInfo& device,
                                     int threads) {
  std::vector<Candidate> candidates;
  for (const Record& record : measured) candidates.push_back(record.candidate);
  const auto times = expected_times(candidates, problems, corrections, device, threads);
  std::vector<double> base(problems.size(), kNever);
  const auto now = expected_times(serving, problems, corrections, device, threads);
  for (std::size_t row = 0; row < problems.size(); ++row)
    for (const double time : now[row]) base[row] = std::min(base[row], time);
  std::set<Problem> taken;
  std::vector<Record> additions;
  choose_gaining(
      std::move(base), times,
      [&](std::size_t i) {
        const Problem& problem = measured[i].problem;
        return room[layout_of(problem)] > 0 && !taken.contains(problem);
      },
      [&](std::size_t i) {
        --room[layout_of(measured[i].problem)];
        taken.insert(measured[i].problem);
        additions.push_back(measured[i]);
      },
      kLeastGain);
  return additions;
}

}  // namespace tilewise
