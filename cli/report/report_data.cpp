#include "cli/report/report_data.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <tuple>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise::cli {
namespace {

constexpr std::size_t kFastestKept = 100, kMostRejections = 20, kReasonLength = 140,
                      kExampleLength = 400;
// Dates are whole seconds, and a search's row is written after its last record.
constexpr double kSlackSeconds = 2;

/// Assigns each measured record to a search and a time. A race at the end of a search replaces a
/// record and its date, but not its id. Ids grow with time, so a record was first written no later
/// than any record with a higher id.
void place_in_searches(std::vector<ReportCandidate>& candidates,
                       const std::vector<Search>& searches) {
  double earliest = std::numeric_limits<double>::infinity();
  for (auto one = candidates.rbegin(); one != candidates.rend(); ++one) {
    if (one->record.origin != Origin::measured) continue;
    const double date = seconds_of_date(one->record.environment.date);
    if (date < 0) continue;
    earliest = std::min(earliest, date);
    for (std::size_t i = 0; i < searches.size(); ++i) {
      const double end = seconds_of_date(searches[i].date), start = end - searches[i].seconds;
      if (earliest > end + kSlackSeconds) continue;
      if (earliest < start - kSlackSeconds) continue;
      one->search = static_cast<int>(i);
      one->seconds = std::clamp(earliest - start, 0.0, std::max(0.0, searches[i].seconds));
      break;
    }
  }
}

void add_roof(std::vector<Roof>& roofs, const std::string& name, double rate) {
  for (Roof& roof : roofs)
    if (roof.name == name) {
      roof.rate = std::max(roof.rate, rate);
      return;
    }
  if (rate > 0) roofs.push_back({name, rate});
}

/// Adds the rate of the units of the multiply step: the step's own rate for tensor cores, the
/// stated f32 peak for other units.
void add_compute_roof(ReportProblem& problem, const KernelTemplate& kernel, const LaunchStep& step,
                      const DeviceInfo& device) {
  const double rate = step.schedule.multiply_add_rate;
  if (rate > 1 || kernel.tensor_cores)
    add_roof(problem.compute_roofs, "tensor cores by " + kernel.name, rate * peak_flops(device));
  else if (problem.problem.a.type == DType::f32)
    add_roof(problem.compute_roofs, "f32 units", peak_flops(device));
}

/// Adds the facts of a candidate's plan, unless this version cannot make the plan.
void add_plan(ReportProblem& problem, ReportCandidate& one, const DeviceInfo& device, bool known,
              bool keep) {
  const KernelTemplate* kernel = known_template(one.record.candidate.kernel_template);
  if (!kernel ||
      !bad_values(*kernel, with_added(*kernel, one.record.candidate.configuration)).empty())
    return;
  const Configuration whole = with_added(*kernel, one.record.candidate.configuration);
  if (!is_valid(*kernel, problem.problem, whole, device)) return;
  Plan plan = kernel->plan(problem.problem, whole, device);
  if (plan.work.global_bytes > 0)
    one.flops_per_byte = flops_of(problem.problem) / plan.work.global_bytes;
  if (const LaunchStep* step = multiply_step(plan)) {
    one.shared_bytes = static_cast<int>(step->shared_bytes) + one.record.usage.static_shared_bytes;
    if (known && one.record.usage.registers > 0) {
      const Occupancy occupancy = occupancy_of(*step, one.record.usage, device);
      const double threads = static_cast<double>(volume(step->block));
      one.resident_blocks = occupancy.blocks;
      one.occupancy_limit = occupancy.limit;
      if (device.threads_per_multiprocessor > 0)
        one.occupancy = occupancy.blocks * threads / device.threads_per_multiprocessor;
    }
    if (known) add_compute_roof(problem, *kernel, *step, device);
  }
  if (keep && can_estimate(device)) problem.limit = to_string(estimate(plan, device).limit);
  if (!keep) return;
  one.plan = std::move(plan);
  one.tiles = kernel->tile_levels(problem.problem, whole);
}

/// The first line, with every run of digits replaced by #.
std::string reason_of(const std::string& detail) {
  std::string reason;
  for (const char c : detail.substr(0, detail.find('\n'))) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit && !reason.empty() && reason.back() == '#') continue;
    if (reason.size() >= kReasonLength) break;
    reason += digit ? '#' : c;
  }
  return reason;
}

void collect_rejections(ReportProblem& problem) {
  std::map<std::tuple<Outcome, std::string, std::string>, Rejection> found;
  for (const ReportCandidate& one : problem.candidates) {
    const Record& record = one.record;
    if (record.outcome == Outcome::ok) continue;
    ++problem.rejected;
    const std::string reason = reason_of(record.detail), &name = record.candidate.kernel_template;
    Rejection& rejection = found[{record.outcome, name, reason}];
    if (rejection.count++ == 0)
      rejection = {record.outcome, name, reason, record.detail.substr(0, kExampleLength), 1};
  }
  for (auto& [key, rejection] : found) problem.rejections.push_back(std::move(rejection));
  std::stable_sort(problem.rejections.begin(), problem.rejections.end(),
                   [](const Rejection& x, const Rejection& y) { return x.count > y.count; });
  while (problem.rejections.size() > kMostRejections) {
    problem.other_rejections += problem.rejections.back().count;
    problem.rejections.pop_back();
  }
}

/// Selects at most `most` candidates to keep.
std::vector<bool> kept(const std::vector<ReportCandidate>& all, std::int64_t winner,
                       std::size_t most) {
  std::vector<bool> keep(all.size(), false);
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) order[i] = i;
  const std::size_t fastest = std::min(kFastestKept, most);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(fastest),
                    order.end(), [&](std::size_t x, std::size_t y) {
                      return time_of(all[x].record) < time_of(all[y].record);
                    });
  for (std::size_t i = 0; i < fastest; ++i) keep[order[i]] = true;
  std::map<int, double> best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double time = time_of(all[i].record);
    const auto [of_search, fresh] = best.emplace(all[i].search, time);
    if (all[i].record.id == winner || (is_ok(all[i].record) && (fresh || time < of_search->second)))
      keep[i] = true;
    of_search->second = std::min(of_search->second, time);
  }
  const auto chosen = static_cast<std::size_t>(std::count(keep.begin(), keep.end(), true));
  const std::size_t others = all.size() - chosen, room = most > chosen ? most - chosen : 0;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) continue;
    keep[i] = others > 0 && (seen + 1) * room / others > seen * room / others;
    ++seen;
  }
  return keep;
}

void thin(std::vector<ReportCandidate>& candidates, std::int64_t winner, std::size_t most) {
  if (candidates.size() <= most) return;
  const std::vector<bool> keep = kept(candidates, winner, most);
  std::vector<ReportCandidate> fewer;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (keep[i]) fewer.push_back(std::move(candidates[i]));
  candidates = std::move(fewer);
}

}  // namespace

double seconds_of_date(const std::string& date) {
  std::tm parts{};
  char zone = 0;
  if (std::sscanf(date.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%c", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &zone) != 7)
    return -1;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return zone == 'Z' ? static_cast<double>(timegm(&parts)) : -1;
}

std::size_t candidates_each(const std::vector<std::int64_t>& counts, const ReportLimits& limits) {
  std::size_t low = 1, high = limits.candidates_of_a_problem;
  const auto total = [&](std::size_t each) {
    std::size_t sum = 0;
    for (const std::int64_t count : counts) sum += std::min(each, static_cast<std::size_t>(count));
    return sum;
  };
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (total(middle) <= limits.candidates)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::optional<DeviceInfo> stored_device(const Database& database, const std::string& gpu) {
  try {
    return device_of(gpu, database.device(gpu));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::database) throw;
    return std::nullopt;  // a key of another version, or of an unknown GPU
  }
}

ReportProblem read_problem_for_report(const Database& database,
                                      const Database::StoredProblem& stored,
                                      const std::optional<Winner>& winner, std::size_t most,
                                      const std::optional<DeviceInfo>& device) {
  ReportProblem problem;
  problem.gpu = stored.gpu;
  problem.problem = stored.problem;
  std::int64_t place = 0;
  std::vector<Record> records = database.records({.problem = stored.problem, .gpu = stored.gpu});
  if (winner) problem.objective = winner->objective;
  if (winner && winner->objective == Objective::time)
    problem.certainty = certainty_of(winner->record, records);
  for (Record& record : records) {
    record.environment.compiler.clear(), record.source_hash.clear(), record.code_hash.clear();
    if (record.measurement) record.measurement->samples_us = {};
    ReportCandidate one;
    one.record = std::move(record);
    one.place = ++place;
    problem.candidates.push_back(std::move(one));
  }
  problem.records = place;
  problem.searches = database.searches(stored.problem, stored.gpu);
  std::stable_sort(problem.searches.begin(), problem.searches.end(),
                   [](const Search& x, const Search& y) { return x.date < y.date; });
  problem.baselines = database.baselines(stored.problem, stored.gpu);
  std::erase_if(problem.baselines,
                [](const Baseline& b) { return !(b.measurement.median_us > 0); });
  std::stable_sort(problem.baselines.begin(), problem.baselines.end(),
                   [](const Baseline& x, const Baseline& y) {
                     return x.measurement.median_us < y.measurement.median_us;
                   });
  place_in_searches(problem.candidates, problem.searches);
  collect_rejections(problem);
  const std::int64_t winner_id = winner ? winner->record.id : 0;
  thin(problem.candidates, winner_id, most);
  const bool gpu = device && !device->target.host;  // the CPU has only plans
  for (std::size_t i = 0; i < problem.candidates.size(); ++i) {
    ReportCandidate& one = problem.candidates[i];
    const bool wins = winner && one.record.id == winner_id;
    if (wins) problem.winner = i, problem.quarantined = winner->quarantined;
    if (device) add_plan(problem, one, *device, gpu, wins);
  }
  if (gpu && can_estimate(*device)) {
    add_roof(problem.memory_roofs, "device memory", peak_bandwidth(*device));
    add_roof(problem.memory_roofs, "L2", l2_bandwidth(*device));
  }
  return problem;
}

double roof_us(const ReportProblem& problem) {
  double flops = 0, bytes = 0;
  for (const Roof& roof : problem.compute_roofs) flops = std::max(flops, roof.rate);
  for (const Roof& roof : problem.memory_roofs)
    if (roof.name == "device memory") bytes = roof.rate;
  if (!(flops > 0) || !(bytes > 0)) return 0;
  return 1e6 * std::max(flops_of(problem.problem) / flops, expected_bytes(problem.problem) / bytes);
}

}  // namespace tilewise::cli
