// Products whose rows or matrices lie too far apart for tensor maps.
#include <algorithm>

#include "matmul/state.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {
namespace {

constexpr std::uint64_t kWithoutMaps = 0x7f4a7c159e3779b9;  // in place of a key of packings

bool has_maps_of_call(const Plan& plan) {
  return std::any_of(plan.tensor_maps.begin(), plan.tensor_maps.end(),
                     [](const TensorMapRecipe& recipe) {
                       return recipe.stride.kind != Argument::Kind::integer64;
                     });
}

}  // namespace

void Matmul::State::multiply_far(const Problem& problem, const Call& call,
                                 const GivenPackings& given) {
  std::shared_ptr<const Executable> served = executable(problem, call.stream, given);
  // Row classes need no alignment beyond an element's.
  if (!served->encodes(call)) served = without_maps(problem, call.stream);
  served->launch(call);
}

/// prepare() loads the problem's own kernel, not this one.
void Matmul::State::require_loaded(const Plan& plan, const Problem& problem) const {
  for (const auto& [spec, need] : kernel_needs(plan))
    if (!loaded(spec, need))
      throw Error(ErrorKind::invalid_argument,
                  to_string(problem) +
                      " with rows or matrices this far apart cannot be captured, since its kernel "
                      "is not loaded yet: multiply once before the capture, with the same leading "
                      "dimensions and strides");
}

/// The first default whose tensor maps, if any, have strides of its own.
std::shared_ptr<const Executable> Matmul::State::without_maps(const Problem& problem,
                                                              Stream stream) {
  const Asked asked(problem, kWithoutMaps);
  if (auto found = executables_.find(asked)) return found;
  const MayLoad may_load = device_->capturing(stream) ? MayLoad::no : MayLoad::yes;
  const std::lock_guard making(make_mutex_);
  if (auto found = executables_.find(asked)) return found;
  const Resolver defaults({}, device_->info());
  RefusedKernels refused = this->refused();
  for (;;) {
    const Resolution resolution = defaults.resolve(problem, refused);
    const Plan plan = plan_of(resolution.candidate, problem, device_->info());
    if (has_maps_of_call(plan)) {
      refused.insert(multiply_step(plan)->kernel);
      continue;
    }
    if (may_load == MayLoad::no) require_loaded(plan, problem);
    Attempt tried = attempt(problem, resolution, may_load);
    if (tried.executable) {
      executables_.add(asked, tried.executable);
      return std::move(tried.executable);
    }
    refuse(problem, tried);
    refused.insert(tried.failed);
  }
}

}  // namespace tilewise
