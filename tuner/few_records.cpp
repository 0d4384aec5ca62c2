#include "tuner/few_records.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "db/database.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/additions.hpp"
#include "vocabulary/device_facts.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

constexpr double kUnserved = std::numeric_limits<double>::infinity();
// What is only expected to be fast is often not.
constexpr double kUnmeasured = 1.1;

/// Whether a record was measured here, with a candidate that this version has.
bool counts(const Record& record) {
  const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
  return record.measurement && record.origin == Origin::measured && kernel &&
         bad_values(*kernel, record.candidate.configuration).empty();
}

/// In the form of this version.
Candidate current(Candidate candidate) {
  candidate.configuration =
      with_added(find_template(candidate.kernel_template), std::move(candidate.configuration));
  return candidate;
}

/// The fastest records of a problem that are shipped: more do not improve predictions.
constexpr std::size_t kOfProblem = 2;

/// The records of a GPU without those that are quarantined.
class Measured {
 public:
  Measured(const Database& database, const std::string& gpu) : database_(database), gpu_(gpu) {
    const auto add = [this](const Record& record) {
      if (counts(record) && !quarantined_.contains(record.id))
        serving_[kind_text(record.problem)].insert(current(record.candidate));
    };
    for (const Winner& winner : database.winners(gpu)) {
      if (!winner.quarantined.empty()) quarantined_.insert(winner.record.id);
      add(winner.record);
    }
    for (const Record& record : database.general(gpu)) add(record);
    // Of products without a winner, which cover() compared, a shipped one may be the fastest.
    for (const Record& record : portfolios_of_capability(device_of(gpu, database.device(gpu))))
      if (const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
          kernel && bad_values(*kernel, record.candidate.configuration).empty())
        serving_[kind_text(record.problem)].insert(current(record.candidate));
  }
  /// What serves products of a kind in any layout, here or on another GPU of the capability.
  const std::set<Candidate>& serving(const std::string& kind) { return serving_[kind]; }
  /// The newest measurements of the candidates at a problem, the fastest first.
  std::vector<Record> at(const Problem& problem, const std::set<Candidate>& candidates) const {
    std::map<Candidate, Record> newest;
    for (Record& record :
         database_.records({.problem = problem, .gpu = gpu_, .outcome = Outcome::ok}))
      if (counts(record) && !quarantined_.contains(record.id)) {
        record.candidate = current(std::move(record.candidate));
        if (!candidates.contains(record.candidate)) continue;
        Record& known = newest[record.candidate];
        if (known.id < record.id) known = std::move(record);
      }
    std::vector<Record> records;
    for (auto& [candidate, record] : newest) records.push_back(std::move(record));
    std::stable_sort(records.begin(), records.end(), faster);
    return records;
  }

 private:
  const Database& database_;
  const std::string& gpu_;
  std::set<std::int64_t> quarantined_;
  std::map<std::string, std::set<Candidate>> serving_;
};

using ByProblem = std::map<Problem, std::vector<Record>>;

/// At most `most` families of the records' candidates.
std::set<Candidate> chosen_together(const Database& database, const std::string& gpu,
                                    const ByProblem& measured, std::size_t most) {
  std::map<Candidate, std::size_t> families;
  std::set<Candidate> all;
  std::vector<Problem> problems;
  for (const auto& [problem, records] : measured) {
    problems.push_back(problem);
    for (const Record& record : records) {
      all.insert(record.candidate);
      families.emplace(family_of(record.candidate), 0);
    }
  }
  std::vector<Candidate> columns;
  for (auto& [family, column] : families) {
    column = columns.size();
    columns.push_back(family);
  }
  std::set<Candidate> chosen;
  if (columns.size() <= most) return {columns.begin(), columns.end()};
  const std::vector<Candidate> candidates(all.begin(), all.end());
  const DeviceInfo device = device_of(gpu, database.device(gpu));
  const auto corrections = load_corrections(database, problems.front(), device);
  const std::vector<std::vector<double>> expected =
      expected_times(candidates, problems, corrections.value_or(Corrections{}), device, 0);
  std::vector<std::vector<double>> times(problems.size(),
                                         std::vector<double>(columns.size(), kUnserved));
  for (std::size_t row = 0; row < problems.size(); ++row) {
    std::map<Candidate, double> own;
    for (const Record& record : measured.at(problems[row]))
      own[record.candidate] = record.measurement->median_us * 1e-6;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      double& time = times[row][families.at(family_of(candidates[i]))];
      const auto known = own.find(candidates[i]);
      time = std::min(time, known != own.end() ? known->second : kUnmeasured * expected[row][i]);
    }
  }
  choose_gaining(
      std::vector<double>(problems.size(), kUnserved), times,
      [&](std::size_t) { return chosen.size() < most; },
      [&](std::size_t i) { chosen.insert(columns[i]); }, 0);
  return chosen;
}

/// Of each problem the fastest, and of each family at least one.
void ship(const ByProblem& measured, const std::set<Candidate>& chosen,
          std::vector<Record>& shipped) {
  std::set<Candidate> has_one;
  for (const auto& [problem, records] : measured) {
    std::size_t count = 0;
    for (const Record& record : records) {
      if (count == kOfProblem) break;
      const Candidate family = family_of(record.candidate);
      if (!chosen.contains(family)) continue;
      ++count;
      has_one.insert(family);
      shipped.push_back(record);
    }
  }
  for (const auto& [problem, records] : measured)
    for (const Record& record : records)
      if (const Candidate family = family_of(record.candidate);
          chosen.contains(family) && has_one.insert(family).second)
        shipped.push_back(record);
}

}  // namespace

std::vector<Record> few_records(const Database& database, const std::string& gpu,
                                std::size_t most) {
  Measured measured(database, gpu);
  std::map<std::pair<std::string, Layout>, ByProblem> kinds;
  for (const Database::StoredProblem& stored : database.problems(gpu)) {
    const std::string kind = kind_text(stored.problem);
    std::vector<Record> records = measured.at(stored.problem, measured.serving(kind));
    if (!records.empty())
      kinds[{kind, layout_of(stored.problem)}][stored.problem] = std::move(records);
  }
  std::vector<Record> few;
  for (const auto& [kind, problems] : kinds)
    ship(problems, chosen_together(database, gpu, problems, most), few);
  return few;
}

}  // namespace tilewise
