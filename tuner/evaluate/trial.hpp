#pragma once
#include <vector>

#include "matmul/image_store.hpp"
#include "tuner/evaluate/evaluator.hpp"

namespace tilewise {

/// One candidate, compiled (or loaded), validated and timed once.
struct Trial {
  Evaluation evaluation;
  std::vector<Image> images;  ///< fewer than steps when one did not compile
  double compile_ms = 0;      ///< 0: everything was stored
};

/// `evaluator` has begun with `problem`. `observe_seconds` as in EvaluationRequest; above 0, the
/// candidate is also pressed. Throws Error(invalid_argument) for a candidate that is invalid on the
/// device, and the Error of a compiler that could not run.
Trial try_candidate(const Problem& problem, const Candidate& candidate, const DeviceInfo& info,
                    const ImageStore& images, Evaluator& evaluator, double observe_seconds = 0);

}  // namespace tilewise
