#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matmul/image_store.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// The catalog's template of that name; null where this version has none (find_template() throws).
const KernelTemplate* known_template(std::string_view name);

/// What is launched for a candidate of a template of the catalog. Throws Error(not_found).
Plan plan_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

/// The step that multiplies; null where a plan has none.
const LaunchStep* multiply_step(const Plan& plan);

/// A candidate with its plan and images, or why it has none.
struct Built {
  Candidate candidate;
  std::string launch_revision;
  std::string source_hash;  ///< of the multiply step: what a record carries
  Plan plan;
  std::vector<Image> images;   ///< one a step; incomplete when refused or missing
  std::string code_hash;       ///< of the machine code of all steps; empty when not all compiled
  std::string refusal;         ///< the compiler's words; empty when it was not refused
  std::optional<Error> fault;  ///< what kept the compiler from its work, no fault of the kernel
  bool missing = false;   ///< no image is stored, and there is no compiler to make one: `fault`
  bool stopped = false;   ///< another process was compiling it when waiting was ended
  bool compiled = false;  ///< something was compiled for it; false: all was stored
  double compile_ms = 0;  ///< of all images, whenever they were compiled
  double compiled_now_ms = 0;  ///< of those compiled now
};

/// Images from the database, the cache or the compiler, in that order. Thread-safe. Throws
/// Error(database); what else goes wrong is in the result.
Built build(const Candidate& candidate, const KernelTemplate& kernel, const Problem& problem,
            const DeviceInfo& device, const ImageStore& store, const Patience& patience = {});

/// The source hash a record of this candidate would carry now; empty when it cannot be told (no
/// compiler, and no image stored).
std::string current_source_hash(const Candidate& candidate, const KernelTemplate& kernel,
                                const Problem& problem, const DeviceInfo& device,
                                const ImageStore& store);

}  // namespace tilewise
