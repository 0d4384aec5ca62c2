#pragma once
// A run of tune() on the fake template, with access to all its parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tests/tuner/fake_tuning.hpp"
#include "tuner/reproduce.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {

struct Tune : testing::Test {
  Tune() {
    problem.m = problem.n = problem.k = 8;
    options.strategy = "exhaustive";
    options.templates = {&kernel};
    options.compile_threads = 1;
    options.reproduce = "autotune tune --device 0 " + problem_options(problem);
  }
  TuneResult run() {
    TuneContext context{database, &cache, &compiler, evaluator, progress, &stop};
    context.clock = clock;
    return tune(problem, options, context);
  }
  std::vector<Record> records() const { return database.records({}); }
  Point winner() const {
    const auto stored = database.winner(problem, gpu);
    if (!stored) return {-1, -1};
    const Configuration& c = stored->record.candidate.configuration;
    return {c.at("X"), c.at("Y")};
  }
  void forget_counts() {
    compiler.count = 0;
    evaluator.evaluated.clear();
    evaluator.raced.clear();
    evaluator.races = evaluator.begins = 0;
  }

  const KernelTemplate kernel = grid_template();
  Problem problem;
  TuneOptions options;
  Database database = Database::in_memory();
  ImageCache cache;
  GridCompiler compiler;
  FakeEvaluator evaluator;
  std::function<void(const TuneProgress&)> progress;
  std::atomic<bool> stop{false};
  std::function<double()> clock;  ///< clock of budgets; empty: the steady clock
  const std::string gpu = gpu_key(evaluator.device_info());
};

}  // namespace tilewise
