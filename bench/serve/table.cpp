#include "bench/serve/table.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/space/search_space.hpp"
#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

constexpr std::int64_t kMostWinners = 1000;
constexpr std::size_t kPool = 200;

/// Candidates that are valid for a problem of a typical size.
std::vector<Candidate> pool_of(const Problem& kind, const DeviceInfo& device,
                               std::mt19937_64& generator) {
  Problem problem = kind;
  problem.m = problem.n = problem.k = 1024;
  problem.batch = 1;
  set_alignment(problem, natural_alignment(problem));
  const SearchSpace space(problem, device, select_templates({}));
  std::vector<Candidate> pool;
  for (std::size_t i = 0; i < 10 * kPool && pool.size() < kPool; ++i)
    if (auto drawn = space.random(generator))
      if (std::find(pool.begin(), pool.end(), *drawn) == pool.end())
        pool.push_back(*std::move(drawn));
  if (pool.empty()) throw Error(ErrorKind::unsupported, "no candidate for " + to_string(problem));
  return pool;
}

Record made_up(const Problem& problem, const Candidate& candidate, const DeviceInfo& device,
               double us) {
  Record record;
  record.problem = problem;
  record.candidate = candidate;
  record.gpu = gpu_key(device);
  record.source_hash = "made up";
  record.launch_revision = launch_revision(find_template(candidate.kernel_template));
  record.measurement.emplace();
  record.measurement->median_us = us;
  record.measurement->spread = 0.01;
  record.measurement->samples = 5;
  record.measurement->samples_us.assign(5, us);
  record.measurement->method = "graph";
  record.environment.date = "2026-01-01T00:00:00Z";
  return record;
}

bool is_valid_here(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return is_valid(find_template(candidate.kernel_template), problem, candidate.configuration,
                  device);
}

/// Records of a problem. The first is the winner. Empty if no candidate of the pool is valid.
std::vector<Record> records_of(const Problem& problem, const DeviceInfo& device,
                               const std::vector<Candidate>& pool, std::size_t count,
                               std::mt19937_64& generator) {
  std::vector<Record> records;
  const std::size_t start = generator() % pool.size();
  std::vector<const Candidate*> losers;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Candidate& one = pool[(start + i) % pool.size()];
    if (!records.empty() || !is_valid_here(one, problem, device)) {
      losers.push_back(&one);
      continue;
    }
    const double model_us = cost_of(one, problem, device).seconds * 1e6;
    const double factor = std::exp(std::normal_distribution<>(0, 0.2)(generator));
    records.push_back(made_up(problem, one, device, (model_us > 0 ? model_us : 10) * factor));
  }
  if (records.empty()) return records;
  const double best = records.front().measurement->median_us;
  for (std::size_t i = 0; i < losers.size() && records.size() < count; ++i)
    records.push_back(
        made_up(problem, *losers[i], device, best * (1.1 + 0.01 * static_cast<double>(i))));
  return records;
}

double us_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

}  // namespace

Problem random_problem(const Problem& kind, std::mt19937_64& generator) {
  Problem problem = kind;
  problem.batch = 1;
  set_layout(problem, static_cast<Layout>(std::uniform_int_distribution<int>(0, 3)(generator)));
  const bool aligned = std::bernoulli_distribution(0.5)(generator);
  for (std::int64_t* size : {&problem.m, &problem.n, &problem.k}) {
    *size = std::llround(std::exp2(std::uniform_real_distribution<>(0, 13)(generator)));
    if (aligned) *size = (*size + 15) / 16 * 16;
  }
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

Filled fill(Database& database, const DeviceInfo& device, const Problem& kind,
            std::int64_t records) {
  std::mt19937_64 generator(1);
  const std::vector<Candidate> pool = pool_of(kind, device, generator);
  const std::int64_t winners = std::clamp<std::int64_t>(
      records / static_cast<std::int64_t>(pool.size() / 2), 1, kMostWinners);
  Filled filled;
  while (filled.records < records) {
    const std::int64_t left = records - filled.records;
    const auto count = static_cast<std::size_t>(std::min(left, (records + winners - 1) / winners));
    const Problem problem = random_problem(kind, generator);
    if (database.winner(problem, gpu_key(device))) continue;
    const std::vector<Record> made = records_of(problem, device, pool, count, generator);
    if (made.empty()) continue;
    const std::vector<std::int64_t> ids = database.add_all(made);
    filled.records += static_cast<std::int64_t>(ids.size());
    if (filled.winners == kMostWinners) continue;
    database.set_winner(ids.front());
    ++filled.winners;
  }
  return filled;
}

ChoiceTimes time_choices(const Database& database, const DeviceInfo& device, const Problem& kind,
                         int count) {
  std::vector<Winner> winners = database.winners(gpu_key(device));
  ChoiceTimes times;
  times.winners = static_cast<std::size_t>(
      std::count_if(winners.begin(), winners.end(),
                    [&](const Winner& winner) { return same_types(winner.record.problem, kind); }));
  const Resolver stored(std::move(winners), device, "", database.general(gpu_key(device)),
                        [&](const Problem& of) {
                          auto found = load_corrections(database, of, device);
                          times.corrections = found.has_value();
                          return found;
                        });
  const Resolver portfolio({}, device, "", portfolio_for(device),
                           [&](const Problem& of) { return portfolio_corrections(of, device); });
  std::mt19937_64 generator(2);
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    const Problem problem = random_problem(kind, generator);
    all.push_back(us_of([&] {
      resolve_with_portfolio(
          stored, [&] { return &portfolio; }, problem);
    }));
  }
  times.first = all.front();
  std::sort(all.begin() + 1, all.end());
  times.median = all[all.size() / 2];
  times.most = all.back();
  return times;
}

}  // namespace tilewise::bench
