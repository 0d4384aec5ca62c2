#include "tuner/few_records.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "db/database.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/additions.hpp"
#include "vocabulary/device_facts.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

// What is only expected to be fast is often not.
constexpr double kUnmeasured = 1.1;

/// Whether a record was measured here, with a candidate that this version has.
bool counts(const Record& record) {
  const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
  return record.measurement && record.origin == Origin::measured && kernel &&
         bad_values(*kernel, record.candidate.configuration).empty();
}

/// The records of a GPU without those that are quarantined.
class Measured {
 public:
  Measured(const Database& database, const std::string& gpu) : database_(database), gpu_(gpu) {
    for (Winner& winner : database.winners(gpu))
      if (!winner.quarantined.empty())
        quarantined_.insert(winner.record.id);
      else if (counts(winner.record))
        serving_.push_back(std::move(winner.record));
    for (Record& record : database.general(gpu))
      if (counts(record) && !quarantined_.contains(record.id))
        serving_.push_back(std::move(record));
  }
  const std::vector<Record>& serving() const { return serving_; }
  std::vector<Record> at(const Problem& problem) const {
    std::vector<Record> records =
        database_.records({.problem = problem, .gpu = gpu_, .outcome = Outcome::ok});
    std::erase_if(records, [&](const Record& record) {
      return !counts(record) || quarantined_.contains(record.id);
    });
    return records;
  }

 private:
  const Database& database_;
  const std::string& gpu_;
  std::set<std::int64_t> quarantined_;
  std::vector<Record> serving_;
};

/// At most `most` of the records' candidates.
std::set<Candidate> chosen_together(const Database& database, const std::string& gpu,
                                    const Measured& measured, const std::vector<Record>& records,
                                    std::size_t most) {
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
    for (const Record& record : measured.at(problems[row]))
      if (const auto found =
              std::lower_bound(candidates.begin(), candidates.end(), record.candidate);
          found != candidates.end() && *found == record.candidate)
        times[row][static_cast<std::size_t>(found - candidates.begin())] =
            record.measurement->median_us * 1e-6;
  }
  std::set<Candidate> chosen;
  choose_gaining(
      std::vector<double>(problems.size(), std::numeric_limits<double>::infinity()), times,
      [&](std::size_t) { return chosen.size() < most; },
      [&](std::size_t i) { chosen.insert(candidates[i]); }, 0);
  return chosen;
}

}  // namespace

std::vector<Record> few_records(const Database& database, const std::string& gpu,
                                std::size_t most) {
  const Measured measured(database, gpu);
  std::map<std::pair<std::string, Layout>, std::vector<Record>> kinds;
  for (const Record& record : measured.serving())
    kinds[{kind_text(record.problem), layout_of(record.problem)}].push_back(record);

  std::vector<Record> few;
  for (const auto& [kind, records] : kinds) {
    const std::set<Candidate> chosen = chosen_together(database, gpu, measured, records, most);
    std::set<Problem> problems;
    for (const Record& record : records) problems.insert(record.problem);
    for (const Problem& problem : problems) {
      std::map<Candidate, Record> newest;
      for (Record& record : measured.at(problem))
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
