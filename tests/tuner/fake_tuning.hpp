#pragma once
// A fake template, compiler and evaluator: tuning without CUDA, with times from a formula.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "templates/sources.hpp"
#include "tests/support/fake_compiler.hpp"
#include "tilewise/error.hpp"
#include "tuner/tuner.hpp"

namespace tilewise {

inline constexpr int kRefused = 3;  // X that the compiler refuses
inline constexpr int kWrong = 5;    // X with wrong results

inline const char* source_name() {
  static const bool added = [] {
    add_kernel_source({"tune_test.cu", "kernel", {}});
    return true;
  }();
  return added ? "tune_test.cu" : "";
}

/// X and Y are 0 to 7. A pack step that all candidates have, then the multiply step.
inline KernelTemplate grid_template(const std::string& name = "grid") {
  source_name();  // added first, because all sources identify a search
  KernelTemplate t;
  t.name = name;
  t.parameters = {{"X", {0, 1, 2, 3, 4, 5, 6, 7}, ""}, {"Y", {0, 1, 2, 3, 4, 5, 6, 7}, ""}};
  t.supports = [](const Problem&, const DeviceInfo&) { return true; };
  t.plan = [name](const Problem&, const Configuration& c, const DeviceInfo&) {
    LaunchStep pack, multiply;
    pack.role = StepRole::pack_a;
    pack.kernel = {source_name(), "pack", {}};
    multiply.kernel = {source_name(), name, {{"X", c.at("X")}, {"Y", c.at("Y")}}};
    Plan plan;
    plan.steps = {pack, multiply};
    return plan;
  };
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"X", 0}, {"Y", 0}};
  };
  return t;
}

/// A compiler that refuses kernels with X = kRefused.
class GridCompiler : public FakeCompiler {
 public:
  GridCompiler() {
    name = "fake 1";
    refuse = [](const KernelSpec& kernel) {
      const auto x = kernel.defines.find("X");
      return x != kernel.defines.end() && x->second == kRefused;
    };
  }
};

using Point = std::pair<std::int64_t, std::int64_t>;

inline Point point_of(const Plan& plan) {
  const auto& defines = plan.steps.at(1).kernel.defines;
  return {defines.begin()->second, std::next(defines.begin())->second};
}

class FakeEvaluator : public Evaluator {
 public:
  DeviceInfo device_info() override {
    DeviceInfo info = nominal_device({9, 0, true});
    info.name = "made-up GPU";
    return info;
  }
  std::string driver_version() override { return "580.1"; }
  bool measures_energy() override { return energy != nullptr; }
  void begin(const Problem& problem, std::shared_ptr<const Reference> reference) override {
    EXPECT_EQ(reference->problem(), problem);
    if (++begins == begin_breaks) throw Error(ErrorKind::device, "the device is gone");
  }
  static Evaluation rejected(Outcome outcome, const std::string& detail) {
    Evaluation evaluation;
    evaluation.outcome = outcome;
    evaluation.detail = detail;
    return evaluation;
  }
  Evaluation evaluate(const EvaluationRequest& request) override {
    EXPECT_EQ(request.images.size(), request.plan.steps.size());
    if (static_cast<int>(evaluated.size()) == break_after)
      throw Error(ErrorKind::device, "the device is gone");
    if (fault && fault(point_of(request.plan))) {
      Evaluation killed = rejected(Outcome::launch_error, "signal 9 (Killed)");
      killed.transient = true;
      return killed;
    }
    if (!request.timed) return confirmation(request);
    evaluated.push_back(point_of(request.plan));
    ++evaluations;
    if (stop && static_cast<int>(evaluated.size()) == stop_after) stop->store(true);
    return measured(request.plan, time);
  }
  /// The evaluation of a candidate that is observed, or validated at another size.
  Evaluation confirmation(const EvaluationRequest& request) {
    const Point point = point_of(request.plan);
    (request.observe_seconds > 0 ? observed : validated).push_back(point);
    Evaluation evaluation;
    evaluation.outcome = Outcome::ok;
    if (request.observe_seconds > 0) evaluation.observed = 100;
    const auto& wrong = request.observe_seconds > 0 ? observed_wrong : edge_wrong;
    if (wrong && wrong(point)) evaluation = rejected(Outcome::wrong_result, "now and then");
    if (confirm_faults && confirm_faults(point)) {
      evaluation = rejected(Outcome::launch_error, "signal 9 (Killed)");
      evaluation.transient = true;
    }
    return evaluation;
  }
  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool) override {
    ++races;
    if (race_breaks) throw Error(ErrorKind::device, "the device is gone");
    RaceResult result;
    for (const EvaluationRequest& request : finalists) {
      raced.push_back(point_of(request.plan));
      result.finalists.push_back(measured(request.plan, race_time ? race_time : time));
      if (std::optional<Measurement>& measurement = result.finalists.back().measurement;
          measurement && request.energy)
        measurement->energy_mj = energy(raced.back());
      if (race_lost && race_lost(raced.back()))
        result.finalists.back() = rejected(Outcome::timeout, "no answer");
      if (race_wrong && race_wrong(raced.back()))
        result.finalists.back() = rejected(Outcome::wrong_result, "not the same each time");
      if (race_faults && race_faults(races)) {
        result.finalists.back() = rejected(Outcome::launch_error, "signal 9 (Killed)");
        result.finalists.back().transient = true;
      }
      if (race_dies) result.finalists.back() = rejected(Outcome::timeout, "no answer");
    }
    Baseline baseline;
    baseline.library = "cuBLAS";
    baseline.version = "13";
    baseline.variant = "default";
    baseline.measurement.median_us = 90;
    result.baselines = {baseline};
    return result;
  }
  Evaluation measured(const Plan& plan, const std::function<double(Point)>& landscape) const {
    Evaluation evaluation;
    evaluation.outcome = point_of(plan).first == kWrong ? Outcome::wrong_result : Outcome::ok;
    if (evaluation.outcome == Outcome::ok) {
      evaluation.measurement = Measurement{};
      evaluation.measurement->median_us = landscape(point_of(plan));
      evaluation.measurement->spread = spread;
    } else {
      evaluation.detail = "C[1][2] = 3 instead of 5 (exact)";
    }
    return evaluation;
  }

  /// Lowest at X = 6, Y = 2.
  std::function<double(Point)> time = [](Point p) {
    return 100.0 + 7 * std::abs(static_cast<double>(p.first) - 6) +
           5 * std::abs(static_cast<double>(p.second) - 2);
  };
  std::function<double(Point)> race_time;
  std::function<bool(Point)> race_wrong, race_lost;
  std::function<bool(Point)> observed_wrong, edge_wrong, confirm_faults;  ///< in a confirmation
  std::function<bool(Point)> fault;  ///< whether a fault of the system affects the candidate
  std::function<bool(int)>
      race_faults;  ///< whether all finalists of that race (from 1) meet a fault
  std::function<double(Point)> energy;  ///< mJ a product; none: it cannot be measured
  double spread = 0.01;
  std::vector<Point> evaluated, raced;
  std::atomic<int> evaluations{0};         ///< the number of them, for other threads
  std::vector<Point> observed, validated;  ///< in a confirmation; validated at another size
  int begins = 0, races = 0, break_after = -1, stop_after = -1, begin_breaks = -1;
  bool race_dies = false, race_breaks = false;
  std::atomic<bool>* stop = nullptr;
};

}  // namespace tilewise
