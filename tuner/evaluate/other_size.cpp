#include "tuner/evaluate/other_size.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tuner/evaluate/extra_operands.hpp"
#include "tuner/evaluate/staging.hpp"

namespace tilewise {
namespace {

// Limits of pressing: bytes of C and workspace, and seconds.
constexpr std::int64_t kMostPressedBytes = std::int64_t{2} << 30;
constexpr double kMostPressedSeconds = 3;

/// The candidate's plan at a size; empty where it is invalid or needs another image.
std::optional<OtherSize> at_size(const Candidate& candidate, const KernelTemplate& kernel,
                                 Problem problem, std::int64_t m, std::int64_t n, std::int64_t k,
                                 const DeviceInfo& device, std::span<const Image> images) {
  problem.m = m, problem.n = n, problem.k = k;
  if (!is_valid(kernel, problem, candidate.configuration, device)) return std::nullopt;
  OtherSize other{problem, kernel.plan(problem, candidate.configuration, device)};
  for (const LaunchStep& step : other.plan.steps)
    if (std::none_of(images.begin(), images.end(),
                     [&](const Image& image) { return image.kernel == step.kernel; }))
      return std::nullopt;
  return other;
}

bool has_constant_size(const Candidate& candidate, const KernelTemplate& kernel) {
  return kernel.size_specialised ||
         (!kernel.specialises.empty() && candidate.configuration.at(kernel.specialises) != 0);
}

}  // namespace

std::vector<Image> images_of(const Plan& plan, std::span<const Image> images) {
  std::vector<Image> in_order;
  for (const LaunchStep& step : plan.steps)
    in_order.push_back(*std::find_if(images.begin(), images.end(), [&](const Image& image) {
      return image.kernel == step.kernel;
    }));
  return in_order;
}

std::optional<OtherSize> pressed_size(const Candidate& candidate, const KernelTemplate& kernel,
                                      const Problem& problem, const DeviceInfo& device,
                                      std::span<const Image> images) {
  if (device.target.host || has_constant_size(candidate, kernel) ||
      !(kernel.pipeline_use(problem, candidate.configuration).releases > 0))
    return std::nullopt;
  Problem few = problem;
  few.batch = std::min<std::int64_t>(problem.batch, 2);
  const auto worth = [&](const OtherSize& size) {
    const PipelineUse use = kernel.pipeline_use(size.problem, candidate.configuration);
    const std::int64_t c =
        size.problem.m * size.problem.n * matrices_c(size.problem) * bytes_of(problem.c.type);
    return use.tiles >= 2.0 * use.stages && size.plan.workspace_bytes + c <= kMostPressedBytes;
  };
  // A constraint may require a partial last wave or a multiple of a tile, and every stage has to be
  // refilled.
  for (const std::int64_t side : {8192, 8064, 7936, 7680, 4096, 2048, 512})
    for (const std::int64_t k : {64, 128, 256, 512, 1024, 2048, 4096})
      if (auto found = at_size(candidate, kernel, few, side, side, k, device, images);
          found && worth(*found))
        return found;
  return std::nullopt;
}

std::optional<OtherSize> edge_size(const Candidate& candidate, const KernelTemplate& kernel,
                                   const Problem& problem, const DeviceInfo& device,
                                   std::span<const Image> images) {
  if (has_constant_size(candidate, kernel)) return std::nullopt;
  struct Size {
    std::int64_t m, n, k;
  };
  // Uses the first valid one: some templates require rows of whole vectors or words.
  constexpr std::array kSizes{Size{509, 389, 253}, Size{508, 388, 252}, Size{504, 376, 248},
                              Size{496, 368, 240}, Size{480, 352, 224}};
  Problem few = problem;
  few.batch = std::min<std::int64_t>(problem.batch, 3);
  // Subtracted from sides that are no larger than the edge size.
  constexpr std::array<std::int64_t, kSizes.size()> kLess{1, 4, 8, 16, 32};
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto smaller = [&](std::int64_t size, std::int64_t edge) {
      return size > edge ? edge : std::max<std::int64_t>(1, size - kLess[i]);
    };
    if (auto found = at_size(candidate, kernel, few, smaller(problem.m, kSizes[i].m),
                             smaller(problem.n, kSizes[i].n), smaller(problem.k, kSizes[i].k),
                             device, images))
      return found;
  }
  return std::nullopt;
}

Repeated press(Device& device, Stream stream, const Problem& problem, const Enqueue& enqueue,
               std::int64_t launches, bool go_on) {
  std::vector<Placement> places{
      tight_placement(rows_a(problem), min_lda(problem), problem.a, matrices_a(problem)),
      tight_placement(rows_b(problem), min_ldb(problem), problem.b, matrices_b(problem)),
      tight_placement(problem.m, problem.n, problem.c, matrices_c(problem))};
  const auto tight = ExtraOperands::Kind::tight;
  const std::vector<Placement> operands = ExtraOperands::placements(problem, tight);
  places.insert(places.end(), operands.begin(), operands.end());
  Staging staging(device, places);
  const ExtraOperands of_epilogue(device, problem, tight);
  of_epilogue.upload(staging, stream, problem, 1);
  const DeviceMatrix c(device, places[2]);
  std::vector<std::pair<DeviceMatrix, DeviceMatrix>> sets;
  std::vector<Call> calls;
  for (const std::uint64_t seed : {1U, 2U}) {
    const auto& [a, b] =
        sets.emplace_back(DeviceMatrix(device, places[0]), DeviceMatrix(device, places[1]));
    staging.upload(stream, a, TestData(problem, DataSet::bounded, DataOf::a, seed));
    staging.upload(stream, b, TestData(problem, DataSet::bounded, DataOf::b, seed));
    calls.push_back(call_on(a, b, c, stream));
    of_epilogue.bind(calls.back());
  }
  std::vector<Repetition::Range> written = of_epilogue.results();
  written.push_back({c.allocation(), places[2].bytes});
  Repetition repetition(device, stream, calls, std::move(written));
  for (std::size_t set = 0; set < calls.size(); ++set) {
    device.fill32(c.allocation(), canary_word(places[2].element_bytes), places[2].bytes / 4,
                  stream);
    of_epilogue.clear_results(device, stream);
    enqueue(calls[set]);
    repetition.expect(set);
  }
  return repetition.run(enqueue, {0, launches, kMostPressedSeconds, go_on});
}

}  // namespace tilewise
