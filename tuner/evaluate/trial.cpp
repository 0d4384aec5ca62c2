#include "tuner/evaluate/trial.hpp"

#include <utility>

#include "matmul/build.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

Trial try_candidate(const Problem& problem, const Candidate& candidate, const DeviceInfo& info,
                    const ImageStore& images, Evaluator& evaluator, double observe_seconds) {
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  const std::string reason = rejection(kernel, problem, candidate.configuration, info);
  if (!reason.empty())
    throw Error(ErrorKind::invalid_argument,
                to_string(candidate) + " is not valid here: " + reason);
  Built built = build(candidate, kernel, problem, info, images);
  if (built.fault) throw Error(*built.fault);
  Trial trial;
  trial.images = std::move(built.images);
  trial.compile_ms = built.compiled_now_ms;
  if (!built.refusal.empty()) {
    trial.evaluation.outcome = Outcome::compile_error;
    trial.evaluation.detail = built.refusal;
    return trial;
  }
  EvaluationRequest request;
  request.plan = std::move(built.plan);
  request.images = trial.images;
  request.observe_seconds = observe_seconds;
  request.press = pressed_size(candidate, kernel, problem, info, trial.images);
  trial.evaluation = evaluator.evaluate(request);
  return trial;
}

}  // namespace tilewise
