#pragma once
#include <optional>
#include <string>
#include <vector>

#include "matmul/image_store.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// A candidate with its plan and images, or the reason why it has no images.
struct Built {
  Candidate candidate;
  std::string launch_revision;
  std::string source_hash;  ///< source hash of the multiply step, as in a record
  Plan plan;
  std::vector<Image> images;   ///< one per step; incomplete when refused or missing
  std::string code_hash;       ///< of the machine code of all steps; empty until all compiled
  std::string refusal;         ///< the compiler's log of a refused source, else empty
  std::optional<Error> fault;  ///< a compiler failure that the kernel did not cause
  bool missing = false;        ///< no image is stored and there is no compiler: see `fault`
  bool stopped = false;        ///< the wait for another process's compile was stopped
  bool late = false;           ///< Patience::latest passed before the compile began
  bool compiled = false;       ///< something was compiled by this call; false: all were stored
  double compile_ms = 0;       ///< compile time of all images, including stored ones
  double compiled_now_ms = 0;  ///< compile time of the images compiled in this call
};

/// Takes images from the database, the cache or the compiler, in that order. Thread-safe. Throws
/// Error(database); other failures are in the result.
Built build(const Candidate& candidate, const KernelTemplate& kernel, const Problem& problem,
            const DeviceInfo& device, const ImageStore& store, const Patience& patience = {});

/// The source hash of a new record of this candidate; empty when unknown (no compiler and no stored
/// image).
std::string current_source_hash(const Candidate& candidate, const KernelTemplate& kernel,
                                const Problem& problem, const DeviceInfo& device,
                                const ImageStore& store);

}  // namespace tilewise
