// The records that serve a range at the end of cover().
#include "tuner/cover_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "matmul/build.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/additions.hpp"
#include "tuner/stored_measurements.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

// For the additions: the number of other sizes, and the most candidates of each point, up to
// kNearBest times as slow as its best.
constexpr int kOtherSizes = 300, kOfPoint = 20;
constexpr double kNearBest = 1.4;

bool is_general(const Record& record) {
  const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
  return kernel && !kernel->size_specialised &&
         (kernel->specialises.empty() ||
          record.candidate.configuration.at(kernel->specialises) == 0);
}

}  // namespace

CoverTable::CoverTable(const SizeRange& range, const CoverOptions& options,
                       const TuneContext& context, const DeviceInfo& device)
    : range_(range), options_(options), context_(context), device_(device), gpu_(gpu_key(device)) {}

std::vector<Record> CoverTable::measured(const Problem& problem) const {
  std::vector<Record> records =
      context_.database.records({.problem = problem, .gpu = gpu_, .outcome = Outcome::ok});
  std::erase_if(records, [&](const Record& record) {
    return !record.measurement || record.origin != Origin::measured || !is_general(record) ||
           !rejection(find_template(record.candidate.kernel_template), problem,
                      record.candidate.configuration, device_)
                .empty();
  });
  return records;
}

std::vector<Record> CoverTable::ok_records(const Problem& problem) const {
  const ImageStore store(&context_.database, context_.cache, context_.compiler);
  std::vector<Record> records = measured(problem);
  std::erase_if(records, [&](const Record& record) {
    return record.source_hash !=
           current_source_hash(record.candidate, find_template(record.candidate.kernel_template),
                               problem, device_, store);
  });
  return records;
}

std::vector<Candidate> CoverTable::changed(const SearchSpace& space, std::size_t most) const {
  const Problem& problem = space.problem();
  const ImageStore store(&context_.database, context_.cache, context_.compiler);
  const std::vector<Record> all = context_.database.records({.problem = problem, .gpu = gpu_});
  // The record of the kernel as it is now, of any outcome.
  const auto current = [&](const Candidate& candidate) {
    const std::string hash = current_source_hash(
        candidate, find_template(candidate.kernel_template), problem, device_, store);
    return std::find_if(all.begin(), all.end(), [&](const Record& record) {
      return record.candidate == candidate && record.source_hash == hash;
    });
  };
  std::vector<Record> records = measured(problem);
  std::stable_sort(records.begin(), records.end(), faster);
  std::vector<Candidate> changed;
  for (const Record& record : records) {
    if (changed.size() == most || !space.allows(record.candidate) ||
        std::find(changed.begin(), changed.end(), record.candidate) != changed.end())
      continue;
    const auto now = current(record.candidate);
    if (now == all.end())
      changed.push_back(record.candidate);
    else if (changed.empty() && is_ok(*now))
      return {};
  }
  return changed;
}

bool CoverTable::keeps_times(const SearchSpace& space, const Candidate& fastest, int threads) {
  const ImageStore store(&context_.database, context_.cache, context_.compiler);
  return same_machine_code(measured(space.problem()), fastest, space, store, context_.database,
                           threads, [this] { return stopped(); });
}

std::vector<CoverLayout> CoverTable::reduce(const std::vector<CoverPoint>& points) {
  std::vector<CoverLayout> layouts;
  for (const Layout layout : range_.layouts())
    if (const std::optional<CoverLayout> made = reduce(points, layout)) layouts.push_back(*made);
  return layouts;
}

/// Empty without a point.
std::optional<CoverLayout> CoverTable::reduce(const std::vector<CoverPoint>& points,
                                              Layout layout) {
  std::vector<Candidate> candidates;
  std::vector<std::map<std::size_t, Record>> records;
  std::vector<PointTimes> times;
  std::vector<double> best;
  for (const CoverPoint& point : points) {
    if (layout_of(point.problem) != layout || point.best_us == 0) continue;
    std::map<std::size_t, Record> own;
    PointTimes own_times;
    for (Record& record : ok_records(point.problem)) {
      const auto known = std::find(candidates.begin(), candidates.end(), record.candidate);
      const auto index = static_cast<std::size_t>(known - candidates.begin());
      if (known == candidates.end()) candidates.push_back(record.candidate);
      own_times.emplace_back(index, record.measurement->median_us);
      own[index] = std::move(record);
    }
    if (own_times.empty()) continue;
    best.push_back(point.best_us);
    prefer_winner(point.problem, candidates, own_times);
    times.push_back(std::move(own_times));
    records.push_back(std::move(own));
  }
  if (times.empty()) return std::nullopt;
  std::set<std::size_t> chosen;
  std::set<KernelSpec>& images = images_[layout];
  double logs = 0;
  const std::vector<std::size_t> choice = choose_few(times, options_.most_configurations);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Record& record = records[i].at(choice[i]);
    serve(record);
    chosen.insert(choice[i]);
    logs += std::log(std::max(1.0, record.measurement->median_us / best[i]));
    for (const LaunchStep& step : plan_of(record.candidate, record.problem, device_).steps)
      images.insert(step.kernel);
  }
  return CoverLayout{layout, times.size(),  chosen.size(),
                     0,      images.size(), std::expm1(logs / static_cast<double>(times.size()))};
}

void CoverTable::add_for_other_sizes(const std::vector<CoverPoint>& points,
                                     std::vector<CoverLayout>& layouts) {
  const Problem& kind = points.front().problem;
  refresh_corrections(context_.database, kind, device_, 1);
  const auto corrections = load_corrections(context_.database, kind, device_);
  if (!corrections || stopped()) return;
  std::map<Layout, std::size_t> room;
  for (const CoverLayout& layout : layouts)
    room[layout.layout] = options_.most_configurations -
                          std::min(options_.most_configurations, layout.configurations);
  const ImageStore store(&context_.database, context_.cache, context_.compiler);
  for (const Record& record :
       choose_additions(serving(kind), near_the_best(points), other_sizes(), std::move(room),
                        *corrections, device_, options_.compile_threads)) {
    if (stopped()) return;
    const Built built = build(record.candidate, find_template(record.candidate.kernel_template),
                              record.problem, device_, store);
    if (built.missing || built.fault || !built.refusal.empty()) continue;
    for (const Image& image : built.images) context_.database.put_image(image, record.id);
    context_.database.set_general(record.id);
    for (CoverLayout& layout : layouts)
      if (layout.layout == layout_of(record.problem)) {
        for (const LaunchStep& step : built.plan.steps) images_[layout.layout].insert(step.kernel);
        ++layout.configurations;
        ++layout.added;
        layout.images = images_[layout.layout].size();
      }
  }
}

/// The candidates that currently serve the kind of products.
std::vector<Candidate> CoverTable::serving(const Problem& kind) const {
  std::vector<Candidate> candidates;
  for (Winner& winner : context_.database.winners(gpu_))
    if (same_types(winner.record.problem, kind) && winner.quarantined.empty() &&
        is_general(winner.record))
      candidates.push_back(std::move(winner.record.candidate));
  for (Record& record : context_.database.general(gpu_))
    if (same_types(record.problem, kind)) candidates.push_back(std::move(record.candidate));
  return candidates;
}

/// The fastest records of each point without a general one; their candidates differ.
std::vector<Record> CoverTable::near_the_best(const std::vector<CoverPoint>& points) const {
  std::set<Problem> have;
  for (const Record& record : context_.database.general(gpu_)) have.insert(record.problem);
  std::vector<Record> near;
  std::set<Candidate> seen;
  for (const CoverPoint& point : points) {
    if (have.contains(point.problem)) continue;
    std::vector<Record> records = ok_records(point.problem);
    std::stable_sort(records.begin(), records.end(), faster);
    int of_point = 0;
    for (Record& record : records) {
      if (of_point == kOfPoint || record.measurement->median_us > kNearBest * point.best_us) break;
      if (!seen.insert(record.candidate).second) continue;
      near.push_back(std::move(record));
      ++of_point;
    }
  }
  return near;
}

std::vector<Problem> CoverTable::other_sizes() const {
  RangePoints points(range_, ~options_.seed, options_.most_flops, options_.most_bytes);
  std::vector<Problem> problems;
  while (problems.size() < kOtherSizes) {
    std::optional<Problem> problem = points.next();
    if (!problem) break;
    problems.push_back(*std::move(problem));
  }
  return problems;
}

/// Puts a race's winner first, even if the single timing of another candidate was shorter.
void CoverTable::prefer_winner(const Problem& problem, const std::vector<Candidate>& candidates,
                               PointTimes& times) const {
  const auto winner = context_.database.winner(problem, gpu_);
  if (!winner) return;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [candidate, us] : times) best = std::min(best, us);
  for (auto& [candidate, us] : times)
    if (candidates[candidate] == winner->record.candidate) us = best * 0.999;
}

/// Makes a record the winner, unless its candidate already is.
void CoverTable::serve(const Record& record) {
  const auto stored = context_.database.winner(record.problem, gpu_);
  if (stored && stored->quarantined.empty() && stored->record.candidate == record.candidate) return;
  const ImageStore store(&context_.database, context_.cache, context_.compiler);
  const Built built = build(record.candidate, find_template(record.candidate.kernel_template),
                            record.problem, device_, store);
  if (built.missing || built.fault || !built.refusal.empty()) return;
  for (const Image& image : built.images) context_.database.put_image(image, record.id);
  context_.database.set_winner(record.id);
}

}  // namespace tilewise
