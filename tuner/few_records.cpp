#include "tuner/few_records.hpp"

#include <map>
#include <set>
#include <utility>

#include "db/database.hpp"
#include "matmul/stored_corrections.hpp"
#include "tuner/additions.hpp"
#include "vocabulary/device_facts.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {

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
    std::set<Candidate> all, chosen;
    std::set<Problem> problems;
    for (const Record& record : records) {
      all.insert(record.candidate);
      problems.insert(record.problem);
    }
    if (all.size() > most) {
      const DeviceInfo device = device_of(gpu, database.device(gpu));
      const auto corrections = load_corrections(database, records.front().problem, device);
      chosen.clear();
      for (const Record& record :
           choose_additions({}, records, {problems.begin(), problems.end()}, {{kind.second, most}},
                            corrections.value_or(Corrections{}), device, 0))
        chosen.insert(record.candidate);
    }
    if (chosen.empty()) chosen = std::move(all);
    for (Record& record : records)
      if (chosen.contains(record.candidate)) few.push_back(std::move(record));
  }
  return few;
}

}  // namespace tilewise
