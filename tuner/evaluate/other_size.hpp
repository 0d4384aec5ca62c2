#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/evaluate/repetition.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Another size of a problem, at which a candidate's images serve as they are.
struct OtherSize {
  Problem problem;
  Plan plan;
};

/// The images of a plan's steps, in order, of a candidate's.
std::vector<Image> images_of(const Plan& plan, std::span<const Image> images);

/// The size at which a pipeline that frees a stage too early shows it most often: 8192 x 8192 x 64,
/// or as near to it as is valid, fills stages again, and takes at most 2 GiB. Of five such kernels
/// 19 to 278 of 300 launches were wrong there (bench/results/h200_ring_race.txt). Empty for kernels
/// without a pipeline of TMA, for those with their size as constants, and on the CPU.
std::optional<OtherSize> pressed_size(const Candidate& candidate, const KernelTemplate& kernel,
                                      const Problem& problem, const DeviceInfo& device,
                                      std::span<const Image> images);

/// A size of some hundreds whose last tiles are not whole, no larger than the problem's. Empty
/// where no such size is valid, and for kernels with their size as constants.
std::optional<OtherSize> edge_size(const Candidate& candidate, const KernelTemplate& kernel,
                                   const Problem& problem, const DeviceInfo& device,
                                   std::span<const Image> images);

/// Launches of a pressed size.
inline constexpr std::int64_t kPressedLaunches = 300;

/// Launches a product on bounded data, two operand sets in turns, and compares every C with the
/// first one of its set, for three seconds at most. There is no reference. Throws
/// Error(out_of_memory).
Repeated press(Device& device, Stream stream, const Problem& problem, const Enqueue& enqueue,
               std::int64_t launches = kPressedLaunches, bool go_on = false);

}  // namespace tilewise
