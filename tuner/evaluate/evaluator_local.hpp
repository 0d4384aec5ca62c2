#pragma once
#include <memory>
#include <string>
#include <vector>

#include "matmul/executable.hpp"
#include "tuner/evaluate/benchmark.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/evaluate/validator.hpp"

namespace tilewise {

/// The libraries for a LocalEvaluator, which does not own them.
std::vector<BaselineLibrary*> pointers_to(const BaselineLibraries& libraries);

/// The evaluator in this process, made by make_local_evaluator() and used by a worker.
class LocalEvaluator : public Evaluator {
 public:
  LocalEvaluator(Device& device, std::vector<BaselineLibrary*> baselines,
                 const TimingOptions& timing);

  DeviceInfo device_info() override { return device_.info(); }
  std::string driver_version() override { return device_.driver_version(); }
  bool measures_energy() override { return tilewise::measures_energy(device_); }
  void begin(const Problem& problem, std::shared_ptr<const Reference> reference) override;
  Evaluation evaluate(const EvaluationRequest& request) override;
  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool with_baselines) override;

  /// Validates and times another library's product like a candidate. Call after begin().
  Evaluation evaluate_enqueued(const Enqueue& enqueue);

  /// Whether the device failed permanently: every later call throws.
  bool broken() const { return !broken_.empty(); }

 private:
  // Members that belong to one problem, in the order of their creation.
  struct Bench {
    std::unique_ptr<Validator> validator;
    std::unique_ptr<TimingBuffers> buffers;
    std::unique_ptr<Benchmark> benchmark;
  };
  void require_working() const;
  Bench make_bench(const Problem& problem, const std::shared_ptr<const Reference>& reference);
  void note_failure(const Error& error, Evaluation& evaluation);
  std::unique_ptr<Executable> load_and_validate(const EvaluationRequest& request,
                                                Evaluation& evaluation);
  bool withstands(const EvaluationRequest& request, const Executable& executable,
                  Evaluation& evaluation);
  bool press_at(const OtherSize& size, const std::vector<Image>& images, Evaluation& evaluation);
  void validate(const Enqueue& enqueue, Evaluation& evaluation);
  bool takes_part(BaselineLibrary& library);
  void choose_fastest(BaselineLibrary& library);

  Device& device_;
  std::vector<BaselineLibrary*> baselines_;
  TimingOptions timing_;
  OwnedStream stream_;
  Problem problem_;
  Bench bench_;
  std::string broken_;  ///< the driver's message when the device failed permanently
};

}  // namespace tilewise
