#pragma once
#include <cstdlib>
#include <vector>

#include "db/database.hpp"
#include "tests/cli/program.hpp"

/// A database that serves the drop-in, and operands.
namespace tilewise::test {

// In cuBLAS's terms; in row-major terms n x m x k.
constexpr int kM = 24, kK = 16;
// Values of n: faster than cuBLAS, slower, without a time of cuBLAS, not tuned.
constexpr int kFaster = 40, kSlower = 48, kUnmeasured = 56, kUntuned = 64;

class TunedTest : public cli_test::ProgramTest {
 protected:
  void SetUp() override {
    for (std::vector<float>* matrix : {&a_, &b_})
      for (float& value : *matrix) value = static_cast<float>(std::rand() % 9 - 4);
    const std::string file = database().string();
    setenv("TILEWISE_DB", file.c_str(), 1);
    setenv("TILEWISE_DROP_IN_DEVICE", "host", 1);
  }

  /// Tunes the problems with one candidate each and stores a time of cuBLAS for two of them.
  /// epilogue: of further problems.
  void tune(const std::string& epilogue = "") {
    const auto add = [&](const std::vector<std::string>& options) {
      std::vector<std::string> all{"tune",  "--device", "host", "--in-process", "--templates",
                                   "naive", "--budget", "20s",  "-q",           "--max-evaluations",
                                   "1"};
      all.insert(all.end(), options.begin(), options.end());
      ASSERT_EQ(run(all).status, 0);
    };
    add({"--sizes", "40x24x16,48x24x16,56x24x16"});
    add({"--sizes", "40x24x16", "--batch", "3"});
    if (!epilogue.empty()) add({"--sizes", "40x24x16,48x24x16", "--epilogue", epilogue});
    Database stored = Database::open(database());
    for (const Winner& winner : stored.winners()) {
      const Problem& problem = winner.record.problem;
      if (problem.m == kUnmeasured) continue;
      Baseline baseline;
      baseline.problem = problem;
      baseline.gpu = winner.record.gpu;
      baseline.library = "cuBLAS", baseline.version = "13.1.0", baseline.variant = "default";
      baseline.measurement = *winner.record.measurement;
      baseline.measurement.median_us *= problem.m == kFaster ? 1.5 : 0.5;
      stored.add(baseline);
      baseline.variant = "pedantic";  // the fastest method of cuBLAS counts
      baseline.measurement.median_us *= 3;
      stored.add(baseline);
    }
  }

  std::vector<float> a_ = std::vector<float>(4096), b_ = a_, c_ = a_;
};

}  // namespace tilewise::test
