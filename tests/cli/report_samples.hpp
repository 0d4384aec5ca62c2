// Databases like those from searches on a GPU, made without one: random candidates with times from
// the cost model plus noise.
#pragma once
#include <algorithm>
#include <ctime>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/database.hpp"
#include "matmul/build.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tilewise/epilogue.hpp"
#include "vocabulary/device_facts.hpp"
#include "vocabulary/device_info.hpp"

namespace cli_test {

struct SampleOptions {
  std::int64_t problems = 1, candidates = 50;  ///< candidates per problem
  std::string gpu = "NVIDIA H200|9.0|132";
  bool baselines = true;
  bool facts = true;          ///< whether the GPU has facts
  std::string epilogue = {};  ///< of all problems; empty: none
};

inline std::string sample_date(std::int64_t seconds) {
  const std::time_t time = 1'790'000'000 + seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// A problem with sizes spread over 16 .. 8192, two types and all layouts.
inline tilewise::Problem sample_problem(std::int64_t index) {
  using namespace tilewise;
  constexpr std::int64_t kSizes[] = {1024, 4096, 512, 2048, 16, 8192, 128, 1000, 333, 64};
  Problem problem;
  set_types(problem, index % 3 == 2 ? DType::bf16 : DType::f32,
            index % 3 == 2 ? DType::bf16 : DType::f32, MathMode::strict);
  problem.m = kSizes[index % 10], problem.n = kSizes[index / 10 % 10];
  problem.k = kSizes[index / 100 % 10];
  set_layout(problem, static_cast<Layout>(index / 1000 % 4));
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

/// Candidate `place` of a search of `problem` that started at `start`.
inline tilewise::Record sample_record(const tilewise::Problem& problem,
                                      const tilewise::Candidate& candidate,
                                      const tilewise::DeviceInfo& device,
                                      std::mt19937_64& generator, std::int64_t seconds) {
  using namespace tilewise;
  Record record;
  record.problem = problem;
  record.candidate = candidate;
  record.source_hash = "0123456789abcdef0123456789abcdef";
  record.launch_revision = candidate.kernel_template + ".1 plan.6";
  record.environment = {"580.159", "NVRTC 13.0", "sample", sample_date(seconds)};
  const Cost cost = estimate(plan_of(candidate, problem, device), device);
  record.predicted_us = cost.seconds * 1e6;
  record.usage.registers = 32 + static_cast<int>(generator() % 200);
  const auto chance = generator() % 20;
  if (chance == 0) {
    record.outcome = Outcome::compile_error;
    record.detail = "ptxas error : uses too much shared data (0x" +
                    std::to_string(generator() % 99999) + " bytes, 0x38c00 max)";
    return record;
  }
  if (chance == 1) {
    record.outcome = Outcome::wrong_result;
    record.detail = "C[" + std::to_string(generator() % 64) + "][4] = 3 instead of 5 (exact)";
    return record;
  }
  Measurement measured;
  measured.median_us = record.predicted_us * (0.8 + 0.01 * static_cast<double>(generator() % 60));
  measured.spread = 0.001 * static_cast<double>(generator() % 9);
  measured.samples = 7;
  measured.launches_per_sample = 20;
  measured.samples_us.assign(7, measured.median_us);
  measured.method = "graph";
  measured.sm_clock_mhz = 1755;
  measured.power_w = 512;
  record.measurement = measured;
  return record;
}

/// Fills a database with two searches for each problem, a winner and cuBLAS's time.
inline void fill_samples(tilewise::Database& database, const SampleOptions& options) {
  using namespace tilewise;
  const DeviceInfo device = nominal_from_key(options.gpu);
  if (options.facts) database.put(facts_of(device, 700, sample_date(0)));
  std::mt19937_64 generator(7);
  for (std::int64_t index = 0; index < options.problems; ++index) {
    Problem problem = sample_problem(index);
    if (!options.epilogue.empty()) set_epilogue(problem, Epilogue(options.epilogue));
    const SearchSpace space(problem, device, select_templates());
    std::vector<Record> records;
    std::set<Candidate> known;
    const std::int64_t start = index * 1000;
    for (std::int64_t draws = 0; draws < 30 * options.candidates; ++draws) {
      const auto place = std::ssize(records);
      if (place == options.candidates) break;
      const auto candidate = space.random(generator);
      if (!candidate || !known.insert(*candidate).second) continue;
      const std::int64_t seconds = place * 2 < options.candidates ? 0 : 100;
      records.push_back(sample_record(problem, *candidate, device, generator,
                                      start + seconds + place * 60 / options.candidates));
      records.back().gpu = options.gpu;
    }
    const std::vector<std::int64_t> ids = database.add_all(records);
    std::int64_t winner = 0;
    double best = 1e300;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (records[i].measurement && records[i].measurement->median_us < best)
        best = records[i].measurement->median_us, winner = ids[i];
    if (winner != 0) database.set_winner(winner);
    for (const auto& [strategy, begin] : {std::pair{"local", 0}, {"random", 100}}) {
      Search search;
      search.problem = problem, search.gpu = options.gpu, search.strategy = strategy;
      search.seed = 1, search.budget_seconds = 60, search.finished = true;
      search.evaluations = options.candidates / 2, search.seconds = 62;
      search.date = sample_date(start + begin + 62);
      database.add(search);
    }
    if (!options.baselines || winner == 0) continue;
    Baseline baseline{problem, options.gpu, "cuBLAS", "13.1.0", "default", {}, {}};
    baseline.measurement.median_us = best * (0.9 + 0.001 * static_cast<double>(index % 500));
    baseline.measurement.samples = 7;
    baseline.environment = records.front().environment;
    database.add(baseline);
  }
}

}  // namespace cli_test
