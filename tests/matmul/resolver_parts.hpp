#pragma once
#include <string>
#include <utility>

#include "matmul/build.hpp"
#include "matmul/resolve.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"

/// Problems, candidates and stored winners for tests of the resolver, on a nominal H200.
namespace tilewise::resolver_parts {

inline constexpr const char* kCompiler = "fake 1.0 -O3";

inline const DeviceInfo& device() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

inline Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k,
                          Layout layout = Layout::nn) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

/// A template's default configuration for the problem.
inline Candidate candidate(const Problem& problem, const std::string& kernel = "simt") {
  return {kernel, find_template(kernel).default_configuration(problem, device())};
}

inline Candidate with(Candidate candidate, const std::string& parameter, int value) {
  candidate.configuration.set(parameter, value);
  return candidate;
}

inline std::string current_hash(const Problem& problem, const Candidate& candidate) {
  const Plan plan =
      find_template(candidate.kernel_template).plan(problem, candidate.configuration, device());
  for (const LaunchStep& step : plan.steps)
    if (step.role == StepRole::multiply) return source_hash(step.kernel, kCompiler);
  return "";
}

inline Winner winner(std::int64_t id, const Problem& problem, const Candidate& candidate,
                     double microseconds = 100) {
  Winner made;
  made.record.id = id;
  made.record.problem = problem;
  made.record.candidate = candidate;
  made.record.gpu = gpu_key(device());
  made.record.measurement.emplace();
  made.record.measurement->median_us = microseconds;
  made.record.environment.date = "2026-11-21T10:00:00Z";
  for (const KernelTemplate& kernel : catalog())
    if (kernel.name == candidate.kernel_template) {
      made.record.launch_revision = launch_revision(kernel);
      made.record.source_hash = current_hash(problem, candidate);
    }
  return made;
}

inline Winner default_winner(std::int64_t id, const Problem& problem, double microseconds = 100) {
  return winner(id, problem, candidate(problem), microseconds);
}

/// The cost model's time, in microseconds.
inline double modelled(const Candidate& candidate, const Problem& problem) {
  return estimate(plan_of(candidate, problem, device()), device()).seconds * 1e6;
}

/// A record whose measured time is `ratio` times the cost model's.
inline Winner winner_by_model(std::int64_t id, const Problem& problem, const Candidate& candidate,
                              double ratio = 1) {
  return winner(id, problem, candidate, ratio * modelled(candidate, problem));
}

inline std::int64_t served(const Resolver& resolver, const Problem& problem) {
  const Resolution match = resolver.resolve(problem);
  return match.record ? match.record->id : 0;
}

inline Problem batch_of(Problem problem, std::int64_t batch) {
  problem.batch = batch;
  return problem;
}

}  // namespace tilewise::resolver_parts
