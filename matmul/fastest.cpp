#include "matmul/fastest.hpp"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

/// The resolution of a problem in one mode.
struct ModeResolution {
  MathMode mode;
  Resolution resolution;
};

// The order of modes without measurements, fastest first.
constexpr MathMode kLikely[] = {MathMode::tf32, MathMode::f32x3, MathMode::fast, MathMode::strict,
                                MathMode::emulated};

std::string number_text(double value) { return in_digits(value, 3); }

/// Whether a mode may be faster than strict: that needs tensor cores of its types.
bool worth_it(MathMode mode, const DeviceInfo& device) {
  if (mode == MathMode::strict) return true;
  if (mode == MathMode::emulated) return has(device.features, Feature::wgmma);
  return has(device.features, mode == MathMode::fast ? Feature::mma_fp8 : Feature::mma_tf32);
}

/// Whether a candidate of the mode `emulated` has kernels that strict products do not have.
bool is_emulating(const Candidate& candidate, Problem problem, const DeviceInfo& device) {
  problem.math = MathMode::strict;
  const KernelTemplate* kernel = known_template(candidate.kernel_template);
  return kernel && !kernel->supports(problem, device);
}

/// Time in microseconds: measured for this problem, predicted from the record of another, or
/// (without a cost model) at the rate of the other problem. Infinity without a measurement.
double expected_us(const ModeResolution& answer, const Problem& problem) {
  const std::optional<Record>& record = answer.resolution.record;
  if (!record || !record->measurement) return std::numeric_limits<double>::infinity();
  if (answer.resolution.kind == MatchKind::predicted && answer.resolution.predicted_us > 0)
    return answer.resolution.predicted_us;
  return record->measurement->median_us * flops_of(problem) / flops_of(record->problem);
}

}  // namespace

MathMode fastest_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                        const std::function<Resolution(const Problem&)>& resolve) {
  std::vector<ModeResolution> answers;
  std::string bounds, unsupported;
  for (const MathMode mode : kLikely) {
    if (!find_product_kind(problem.a.type, problem.b.type, problem.c.type, mode)) continue;
    Problem asked = problem;
    asked.math = mode;
    const double bound = error_bound(asked);
    append(bounds, std::string(to_string(mode)) + " " + number_text(bound));
    if (!(bound <= accuracy) || !worth_it(mode, device)) continue;
    try {
      Resolution resolution = resolve(asked);
      // A strict kernel is as exact, and takes the same time in both modes.
      if (mode == MathMode::emulated &&
          (!resolution.record || !is_emulating(resolution.candidate, problem, device)))
        continue;
      answers.push_back({mode, std::move(resolution)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      unsupported = error.what();
    }
  }
  if (answers.empty()) {
    if (!unsupported.empty()) throw Error(ErrorKind::unsupported, unsupported);
    throw Error(ErrorKind::invalid_argument,
                "no mode of " + operands_text(problem.a.type, problem.b.type) +
                    " products with k = " + std::to_string(problem.k) +
                    " has an error of at most " + number_text(accuracy) + "; the bounds are " +
                    bounds);
  }
  const ModeResolution* fastest = &answers.front();
  for (const ModeResolution& answer : answers) {
    if (!answer.resolution.record) return answers.front().mode;
    if (expected_us(answer, problem) < expected_us(*fastest, problem)) fastest = &answer;
  }
  return fastest->mode;
}

}  // namespace tilewise
