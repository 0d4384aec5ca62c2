#pragma once
// Plans of every template of the catalog for random problems on every known target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/problems.hpp"
#include "tests/templates/argument_names.hpp"

namespace tilewise {

using test::argument_named;

inline const LaunchStep& multiply_of(const Plan& plan) {
  for (const LaunchStep& step : plan.steps)
    if (step.role == StepRole::multiply) return step;
  throw std::runtime_error("no multiply step");
}

struct Sample {
  Problem problem;
  Candidate candidate;
  Plan plan;
  DeviceInfo device;
};

/// Hundreds of valid candidates for random problems on every target, generated once; with
/// TILEWISE_FULL=1 thousands.
inline const std::vector<Sample>& samples() {
  static const std::vector<Sample> drawn = [] {
    const int problems = std::getenv("TILEWISE_FULL") ? 30 : 10;
    std::vector<Sample> all;
    std::mt19937_64 generator(20261121);
    for (const Target& target : known_targets()) {
      const DeviceInfo device = nominal_device(target);
      for (int i = 0; i < problems + 3; ++i) {
        Problem problem = test::random_typed_problem(generator, 5000);
        if (i == problems + 2) {
          problem = test::make_problem(Layout::nt, 70, 900, 1100);
          set_types(problem, DType::f16, DType::i4, DType::f16, MathMode::strict);
        } else if (i >= problems) {  // few kinds have this mode
          const DType type = i == problems ? DType::f64 : DType::f32;
          problem = test::make_problem(Layout::nn, 700, 900, 1100);
          set_types(problem, type, type, MathMode::emulated);
        }
        const auto can = [&](const KernelTemplate& t) { return t.supports(problem, device); };
        if (std::none_of(catalog().begin(), catalog().end(), can)) continue;
        const SearchSpace space(problem, device, select_templates());
        for (int draw = 0; draw < 15; ++draw) {
          const auto candidate = space.random(generator);
          if (!candidate) continue;
          const KernelTemplate& kernel = find_template(candidate->kernel_template);
          all.push_back({problem, *candidate,
                         kernel.plan(problem, candidate->configuration, device), device});
        }
      }
    }
    return all;
  }();
  return drawn;
}

/// Calls `check(problem, candidate, plan, device)` for each sample.
template <class Check>
void for_random_plans(const Check& check) {
  for (const Sample& s : samples()) check(s.problem, s.candidate, s.plan, s.device);
  EXPECT_GT(samples().size(), 700U);
}

}  // namespace tilewise
