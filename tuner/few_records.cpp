#include "tuner/few_records.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "db/database.hpp"
#include "matmul/stored_corrections.hpp"
#include "tuner/additions.hpp"
#include "vocabulary/device_facts.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

// What is only expected to be fast is often not.
constexpr double kUnmeasured = 1.1;

std::vector<Record> measured_at(const Database& database, const std::string& gpu,
                                const Problem& problem) {
  std::vector<Record> records =
      database.records({.problem = problem, .gpu = gpu, .outcome = Outcome::ok});
  std::erase_if(records, [](const Record& record) {
    return !record.measurement || record.origin != Origin::measured;
  });
  return records;
}

/// At most `most` of the records' candidates.
std::set<Candidate> chosen_together(const Database& database, const std::string& gpu,
                                    const std::vector<Record>& records, std::size_t most) {
  std::set<Problem> different;
  std::set<Candidate> all;
  for (const Record& record : records) {
    different.insert(record.problem);
    all.insert(record.candidate);
  }
  if (all.size() <= most) return all;
  const std::vector<Problem> problems(different.begin(), different.end());
  const std::vector<Candidate> candidates(all.begin(), all.end());
  const DeviceInfo device = device_of(gpu, database.device(gpu));
  const auto corrections = load_corrections(database, problems.front(), device);
  std::vector<std::vector<double>> times =
      expected_times(candidates, problems, corrections.value_or(Corrections{}), device, 0);
  for (std::size_t row = 0; row < problems.size(); ++row) {
    for (double& time : times[row]) time *= kUnmeasured;
    for (const Record& record : measured_at(database, gpu, problems[row]))
      if (const auto found =
              std::lower_bound(candidates.begin(), candidates.end(), record.candidate);
          found != candidates.end() && *found == record.candidate)
        times[row][static_cast<std::size_t>(found - candidates.begin())] =
            record.measurement->median_us * 1e-6;
  }
  std::set<Candidate> chosen;
  choose_gaining(
      std::vector<double>(problems.size(), std::numeric_limits<double>::infinity()), times,
      [&](std::size_t i) { return chosen.size() < most && !chosen.contains(candidates[i]); },
      [&](std::size_t i) { chosen.insert(candidates[i]); }, 0);
  return chosen;
}

}  // namespace

std::vector<Record> few_records(const Database& database, const std::string& gpu,
                                std::size_t most) {
  std::map<std::pair<std::string, Layout>, std::vector<Record>> kinds;
  const auto add = [&](Record record) {
    if (record.origin == Origin::measured && record.measurement)
      kinds[{kind_text(record.problem), layout_of(record.problem)}].push_back(std::move(record));
  };
  for (Winner& winner : database.winners(gpu))
    if (winner.quarantined.empty()) add(std::move(winner.record));
  for (Record& record : database.general(gpu)) add(std::move(record));

  std::vector<Record> few;
  for (auto& [kind, records] : kinds) {
    const std::set<Candidate> chosen = chosen_together(database, gpu, records, most);
    std::set<Problem> problems;
    for (const Record& record : records) problems.insert(record.problem);
    for (const Problem& problem : problems) {
      std::map<Candidate, Record> newest;
      for (Record& record : measured_at(database, gpu, problem))
        if (chosen.contains(record.candidate)) {
          Record& known = newest[record.candidate];
          if (known.id < record.id) known = std::move(record);
        }
      for (auto& [candidate, record] : newest) few.push_back(std::move(record));
    }
  }
  return few;
}

}  // namespace tilewise
