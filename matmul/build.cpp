#include "matmul/build.hpp"

#include <utility>

#include "device/elf.hpp"
#include "templates/sources.hpp"
#include "vocabulary/hash.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

Built build(const Candidate& candidate, const KernelTemplate& kernel, const Problem& problem,
            const DeviceInfo& device, const ImageStore& store, const Patience& patience) {
  Patience limits = patience;
  Built built;
  built.candidate = candidate;
  built.launch_revision = launch_revision(kernel);
  built.plan = kernel.plan(problem, candidate.configuration, device);
  const LaunchStep* multiply = multiply_step(built.plan);
  if (multiply && store.compiler())
    built.source_hash = source_hash(multiply->kernel, store.compiler()->identity());
  std::string code;
  for (const LaunchStep& step : built.plan.steps) {
    ImageStore::Made made;
    try {
      made = store.make(step.kernel, device.target, built.launch_revision, limits);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::database) throw;
      built.missing = !store.compiler();
      built.fault = error;
      return built;
    }
    built.compiled |= made.compiled;
    if (made.compiled) limits.latest = Patience::Clock::time_point::max();  // a begun build ends
    built.stopped = made.stopped;
    built.late = made.late;
    if (made.stopped || made.late) return built;
    if (!made.image) {
      built.refusal = made.log.empty() ? "the compiler gave no image and no reason" : made.log;
      return built;
    }
    built.compile_ms += made.image->compile_ms;
    if (made.compiled) built.compiled_now_ms += made.image->compile_ms;
    if (&step == multiply) built.source_hash = made.image->source_hash;
    code += code_hash(made.image->binary);
    built.images.push_back(std::move(*made.image));
  }
  if (!code.empty()) built.code_hash = hash_text(code);
  return built;
}

std::string current_source_hash(const Candidate& candidate, const KernelTemplate& kernel,
                                const Problem& problem, const DeviceInfo& device,
                                const ImageStore& store) {
  const Plan plan = kernel.plan(problem, candidate.configuration, device);
  const LaunchStep* multiply = multiply_step(plan);
  if (!multiply) return "";
  if (store.compiler()) return source_hash(multiply->kernel, store.compiler()->identity());
  const auto image = store.stored(multiply->kernel, device.target, launch_revision(kernel));
  return image ? image->source_hash : "";
}

}  // namespace tilewise
