#include "tuner/stored_measurements.hpp"

#include <algorithm>

#include "vocabulary/record.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kFinalists = 8, kOthers = 8;

bool can_compare(const Record& record, const SearchSpace& space) {
  const KernelTemplate* kernel = template_of(record.candidate, space);
  return kernel && !record.code_hash.empty() &&
         rejection(*kernel, space.problem(), record.candidate.configuration, space.device())
             .empty();
}

/// The winner and the finalists, then others evenly spaced from fast to slow.
std::vector<Record> sample_of(std::vector<Record> records, const Candidate& winner) {
  std::stable_sort(records.begin(), records.end(), faster);
  std::stable_partition(records.begin(), records.end(),
                        [&](const Record& record) { return record.candidate == winner; });
  if (records.size() <= kFinalists + kOthers) return records;
  std::vector<Record> sample(records.begin(), records.begin() + kFinalists);
  const std::size_t rest = records.size() - kFinalists;
  for (std::size_t i = 0; i < kOthers; ++i)
    sample.push_back(records[kFinalists + rest * (i + 1) / kOthers - 1]);
  return sample;
}

}  // namespace

const KernelTemplate* template_of(const Candidate& candidate, const SearchSpace& space) {
  for (const KernelTemplate* kernel : space.templates())
    if (kernel->name == candidate.kernel_template) return kernel;
  return known_template(candidate.kernel_template);
}

std::vector<Candidate> StaleMeasurements::fastest(std::size_t count) const {
  std::vector<Record> ok = records_;
  std::erase_if(ok, [](const Record& record) { return !is_ok(record); });
  std::stable_sort(ok.begin(), ok.end(), faster);
  std::vector<Candidate> candidates;
  for (const Record& record : ok)
    if (candidates.size() < count &&
        std::find(candidates.begin(), candidates.end(), record.candidate) == candidates.end())
      candidates.push_back(record.candidate);
  return candidates;
}

std::optional<Record> StaleMeasurements::take(const Built& built) {
  if (built.code_hash.empty()) return std::nullopt;
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const Record& record) {
    return record.code_hash == built.code_hash && record.candidate == built.candidate;
  });
  if (found == records_.end()) return std::nullopt;
  Record record = std::move(*found);
  records_.erase(found);
  return record;
}

bool same_machine_code(const std::vector<Record>& records, const Candidate& winner,
                       const SearchSpace& space, const ImageStore& store, Database& database,
                       int threads, const std::function<bool()>& stopped) {
  std::vector<Record> candidates;
  for (const Record& record : records)
    if (can_compare(record, space)) candidates.push_back(record);
  const std::vector<Record> sample = sample_of(std::move(candidates), winner);
  if (sample.empty() || sample.front().candidate != winner) return false;
  CompileAhead pool(space.problem(), space.device(), store, threads);
  for (const Record& record : sample)
    pool.add(record.candidate, *template_of(record.candidate, space));
  std::vector<std::pair<std::int64_t, Built>> same;
  while (pool.under_way() > 0) {
    if (stopped()) return false;
    const std::optional<Built> built = pool.take(kBuildPatience);
    if (!built) continue;
    const auto record = std::find_if(sample.begin(), sample.end(), [&](const Record& r) {
      return r.candidate == built->candidate;
    });
    if (built->code_hash.empty() || built->code_hash != record->code_hash) return false;
    same.emplace_back(record->id, *built);
  }
  for (const auto& [id, built] : same) database.renew(id, built.source_hash, built.launch_revision);
  return true;
}

}  // namespace tilewise
