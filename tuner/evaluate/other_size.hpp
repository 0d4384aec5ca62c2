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

/// Another size of a problem that a candidate's images serve unchanged.
struct OtherSize {
  Problem problem;
  Plan plan;
};

/// The images of a plan's steps, in order, from a candidate's images.
std::vector<Image> images_of(const Plan& plan, std::span<const Image> images);

/// The size that most often reveals a pipeline that frees a stage too early: 8192 x 8192 x 64, or
/// the nearest valid one; it refills stages and takes at most 2 GiB. Five such kernels were wrong
/// there in 19 to 278 of 300 launches (bench/results/h200_ring_race.txt). Empty for kernels without
/// a TMA pipeline, for those with constant size, and on the CPU.
std::optional<OtherSize> pressed_size(const Candidate& candidate, const KernelTemplate& kernel,
                                      const Problem& problem, const DeviceInfo& device,
                                      std::span<const Image> images);

/// A size of some hundreds with partial last tiles, no larger than the problem's. Empty where no
/// such size is valid, and for kernels with constant size.
std::optional<OtherSize> edge_size(const Candidate& candidate, const KernelTemplate& kernel,
                                   const Problem& problem, const DeviceInfo& device,
                                   std::span<const Image> images);

/// Launches of a pressed size.
inline constexpr std::int64_t kPressedLaunches = 300;

/// Launches a product on bounded data, two operand sets alternately, and compares every C with the
/// first one of its set, for at most three seconds. Uses no reference. Throws Error(out_of_memory).
Repeated press(Device& device, Stream stream, const Problem& problem, const Enqueue& enqueue,
               std::int64_t launches = kPressedLaunches, bool go_on = false);

}  // namespace tilewise
