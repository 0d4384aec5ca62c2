#include "matmul/stored_corrections.hpp"

#include <map>
#include <utility>
#include <vector>

#include "matmul/portfolio.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kMostRecords = 40'000;

RecordFilter measured(const Problem& problem, const DeviceInfo& device) {
  RecordFilter filter;
  filter.types = problem;
  filter.gpu = gpu_key(device);
  filter.outcome = Outcome::ok;
  return filter;
}

}  // namespace

std::optional<Corrections> load_corrections(const Database& database, const Problem& problem,
                                            const DeviceInfo& device) {
  const std::optional<StoredCorrections> stored =
      database.corrections(gpu_key(device), kind_text(problem));
  if (!stored) return std::nullopt;
  try {
    Corrections corrections = Corrections::from_bytes(stored->trees, problem, device);
    // Where a template's are of another version, all are fitted again, and the shipped ones serve
    // until then.
    if (corrections.empty() || !corrections.whole()) return std::nullopt;
    return corrections;
  } catch (const Error& error) {
    database.warn("the corrections of " + stored->kind + " on " + stored->gpu +
                  " are not used: " + error.what());
    return std::nullopt;
  }
}

std::optional<Corrections> own_or_shipped_corrections(const Database& database,
                                                      const Problem& problem,
                                                      const DeviceInfo& device) {
  std::optional<Corrections> own = load_corrections(database, problem, device);
  return own ? std::move(own) : portfolio_corrections(problem, device);
}

bool refresh_corrections(Database& database, const Problem& problem, const DeviceInfo& device,
                         double growth, Assess assess) {
  if (!can_estimate(device)) return false;
  RecordFilter filter = measured(problem, device);
  const std::int64_t count = database.count(filter);
  if (count < static_cast<std::int64_t>(Corrections::kLeastSamples)) return false;
  const auto stored = database.corrections(gpu_key(device), kind_text(problem));
  if (stored && static_cast<double>(count) < growth * static_cast<double>(stored->samples) &&
      load_corrections(database, problem, device))
    return false;
  filter.limit = kMostRecords;
  // The newest of each candidate: where its kernel has changed, the others are of another one.
  std::map<std::pair<Problem, Candidate>, Record> newest;
  // Functions of an epilogue would be taken for properties of the kernel.
  for (Record& record : database.records(filter))
    if (record.measurement && !record.problem.epilogue) {
      Record& kept = newest[{record.problem, record.candidate}];
      if (record.id >= kept.id) kept = std::move(record);
    }
  std::vector<Corrections::Sample> samples;
  for (auto& [of, record] : newest)
    samples.push_back({of.first, of.second, record.measurement->median_us});
  if (samples.size() < Corrections::kLeastSamples) return false;
  Corrections corrections = Corrections::fit(samples, device);
  if (corrections.empty()) return false;
  if (assess == Assess::yes) corrections.set_accuracy(Corrections::assess(samples, device));
  database.put({gpu_key(device), kind_text(problem), count, corrections.to_bytes()});
  return true;
}

}  // namespace tilewise
