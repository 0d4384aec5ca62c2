#include "cli/tune/dry_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/space_count.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

/// Fewer draws would give poor estimates of the refusals.
constexpr int kLeastDraws = 500;

struct Expected {
  std::vector<SpaceCount> counts;
  double valid = 0;
  double most = 0;                              // most candidates, by the errors of the counts
  std::int64_t stored = 0;                      // records of this problem
  std::optional<double> candidates_per_second;  // from earlier searches on this GPU
  std::optional<double> candidates;
  double seconds = 0;
};

std::optional<double> rate_on(const Database& database, const std::string& gpu) {
  double evaluations = 0, seconds = 0;
  for (const Winner& winner : database.winners(gpu))
    for (const Search& search : database.searches(winner.record.problem, gpu)) {
      evaluations += static_cast<double>(search.evaluations);
      seconds += search.seconds;
    }
  return evaluations > 0 && seconds > 0 ? std::optional(evaluations / seconds) : std::nullopt;
}

/// Divides the work of one count among the searches, so that a long list takes little longer than
/// one problem. Fewer counts are then exact, and the other errors are larger.
CountLimits shared_limits(std::size_t searches, std::uint64_t seed) {
  CountLimits limits;
  const int count = static_cast<int>(std::clamp<std::size_t>(searches, 1, 1'000'000));
  limits.combinations /= count;
  limits.listed /= count;
  limits.draws = std::max(limits.draws / count, kLeastDraws);
  limits.seed = seed;
  return limits;
}

/// The expected work of a search. `rates` caches the candidates per second on each GPU.
Expected expected_of(const PlannedSearch& search, const Database* database,
                     const CountLimits& limits,
                     std::map<std::string, std::optional<double>>& rates) {
  Expected expected;
  expected.counts =
      count_space(search.problem, search.device, search.templates, search.subspace, limits);
  for (const SpaceCount& count : expected.counts) {
    expected.valid += count.valid.points;
    expected.most += std::ceil(count.valid.points + 2 * count.valid.standard_error);
  }
  const std::string gpu = gpu_key(search.device);
  if (database) {
    expected.stored = static_cast<std::int64_t>(
        database->records({.problem = search.problem, .gpu = gpu}).size());
    if (!rates.contains(gpu)) rates[gpu] = rate_on(*database, gpu);
    expected.candidates_per_second = rates[gpu];
  }
  if (search.max_evaluations > 0)
    expected.most = std::min(expected.most, static_cast<double>(search.max_evaluations));
  expected.seconds = search.budget_seconds;
  if (!expected.candidates_per_second) return expected;
  const double rate = *expected.candidates_per_second;
  expected.candidates = std::min(expected.most, std::round(rate * search.budget_seconds));
  expected.seconds = std::min(search.budget_seconds, expected.most / rate);
  return expected;
}

Json search_json(const PlannedSearch& search, const Expected& expected) {
  Json json{{"device", search.device.name},
            {"problem", json_of(search.problem)},
            {"budget_seconds", search.budget_seconds},
            {"stored_records", expected.stored},
            {"expected_seconds", expected.seconds},
            {"expected_candidates", nullptr},
            {"spaces", counts_json(expected.counts)}};
  if (expected.candidates) json["expected_candidates"] = *expected.candidates;
  return json;
}

}  // namespace

void print_dry_run(const std::vector<PlannedSearch>& searches, const Database* database,
                   std::uint64_t seed, const Output& output) {
  Json document{{"dry_run", true}, {"expected_seconds", 0.0}, {"searches", Json::array()}};
  Table table({{"device", false, true, 1},
               {"problem"},
               {"valid", true},
               {"stored", true},
               {"candidates", true},
               {"time", true}});
  std::vector<SpaceCount> counts;
  double seconds = 0;
  const CountLimits limits = shared_limits(searches.size(), seed);
  std::map<std::string, std::optional<double>> rates;
  Progress progress(output);
  for (const PlannedSearch& search : searches) {
    progress.show("counting the configurations of problem " +
                  std::to_string(document["searches"].size() + 1) + " of " +
                  std::to_string(searches.size()) + ": " + table_text(search.problem));
    const Expected expected = expected_of(search, database, limits, rates);
    seconds += expected.seconds;
    counts.insert(counts.end(), expected.counts.begin(), expected.counts.end());
    document["searches"].push_back(search_json(search, expected));
    table.add({search.device.name, table_text(search.problem), count_text(expected.valid),
               std::to_string(expected.stored),
               expected.candidates ? format_number(*expected.candidates, 0) : "-",
               format_seconds(expected.seconds)});
  }
  progress.clear();
  document["expected_seconds"] = seconds;
  if (output.json) return print_document(document);
  print_counts(counts, output);
  print_line("\nNothing is measured (--dry-run). Expected:");
  table.print(output);
  print_line("in all " + format_seconds(seconds) +
             ", less where several identical GPUs share the list, or a search is done already");
}

}  // namespace tilewise::cli
