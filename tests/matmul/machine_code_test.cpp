// Checks, in machine code, how a warp returns memory of the block to TMA. The compiler may move a
// load or a store past later code of the source. The proxy fence of release_to_tma()
// (templates/words/mbarrier.cuh) must stay between the last load of a stage and the arrival.
//
// Compiles with the machine's NVRTC, or with that of TILEWISE_NVRTC; ./check --full runs these
// tests with several. TILEWISE_FULL=1 takes random candidates for each GPU instead of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/cuda.hpp"
#include "device/elf.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/nvrtc.hpp"
#include "tests/support/stage_release.hpp"
#include "tilewise/matmul.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::machine_code_test {
namespace {

using test::StageRelease;
using Change = std::function<void(KernelSource&)>;

/// A kernel to compile.
struct Case {
  DeviceInfo device;
  Problem problem;
  Candidate candidate;

  std::string name() const {
    return to_string(device.target) + " " + to_string(problem) + " " + to_string(candidate);
  }
};

/// Replaces `before`, which occurs once in all sources together, with `after`.
void replace_once(KernelSource& source, const std::string& before, const std::string& after) {
  int changed = 0;
  for (auto& [name, text] : source.headers) {
    const std::size_t at = text.find(before);
    if (at == std::string::npos) continue;
    text.replace(at, before.size(), after);
    ++changed;
  }
  EXPECT_EQ(changed, 1) << before;
}

const std::string kFence = "fence_proxy_async();  //@ release-fence";
void without_fence(KernelSource& source) { replace_once(source, kFence, ""); }
/// Moves the fence before the first load of the stage.
void early_fence(KernelSource& source) {
  without_fence(source);
  const std::string wait = "mbarrier_wait(full + consumer.stage, consumer.phase);";
  replace_once(source, wait, wait + " fence_proxy_async();");
}
/// Makes a fence that does not name the memory of the block.
void wide_fence(KernelSource& source) {
  replace_once(source, kFence, R"(asm volatile("fence.proxy.async;" ::: "memory");)");
}

void without_fence_of_buffers(KernelSource& source) {
  replace_once(source, "fence_proxy_async();  //@ wgmma-fence-stores", "");
}
void without_arrival(KernelSource& source) {
  const std::string arrival = "\n  mbarrier_arrive_warp(empty, at);";
  replace_once(source, kFence + arrival, kFence + "\n  __syncwarp();");
}

class MachineCode : public test::NvrtcTest {
 protected:
  StageRelease compiled(const Case& one, const Change& change = {}) const {
    const KernelTemplate& kernel = find_template(one.candidate.kernel_template);
    const Plan plan = kernel.plan(one.problem, one.candidate.configuration, one.device);
    for (const LaunchStep& step : plan.steps) {
      if (step.role != StepRole::multiply) continue;
      KernelSource source = kernel_source(step.kernel.source);
      if (change) change(source);
      const CompileResult made =
          compiler_->compile({step.kernel, source.text, source.headers, one.device.target});
      if (!made.image) throw std::runtime_error(one.name() + ": " + made.log);
      return test::StageReleaseCheck(
                 test::instructions(elf_section(made.image->binary, ".text." + step.kernel.entry)))
          .found();
    }
    throw std::runtime_error("no multiply step");
  }

  std::vector<StageRelease> compiled(const std::vector<Case>& cases,
                                     const Change& change = {}) const {
    std::vector<StageRelease> found(cases.size());
    parallel_for(std::ssize(cases), 0, [&](std::int64_t i, int) {
      found[static_cast<std::size_t>(i)] = compiled(cases[static_cast<std::size_t>(i)], change);
    });
    return found;
  }

  /// The devices of sm_90, sm_100 and sm_120 that the compiler and the template support.
  std::vector<DeviceInfo> devices(const Problem& problem, const std::string& kernel) const {
    std::vector<DeviceInfo> known;
    const std::vector<Target> all = compiler_->targets();
    for (const char* name : {"sm_90", "sm_100", "sm_120"}) {
      const DeviceInfo device = nominal_device(best_target(parse_target(name)));
      if (std::find(all.begin(), all.end(), device.target) != all.end() &&
          find_template(kernel).supports(problem, device))
        known.push_back(device);
    }
    return known;
  }

  /// Draws a random candidate, or with TILEWISE_FULL `full` of them for each GPU. Later calls draw
  /// for other GPUs.
  void draw(std::vector<Case>& cases, const Problem& problem, const std::string& kernel,
            const Subspace& subspace, int full) {
    std::vector<DeviceInfo> all = devices(problem, kernel);
    ASSERT_FALSE(all.empty()) << kernel << " " << to_string(problem);
    if (!full_) all = {all[turn_++ % all.size()]};
    for (const DeviceInfo& device : all) {
      const SearchSpace space(problem, device, select_templates({kernel}), subspace);
      for (int i = 0; i < (full_ ? full : 1); ++i) {
        const auto candidate = space.random(generator_);
        ASSERT_TRUE(candidate) << to_string(problem);
        cases.push_back({device, problem, *candidate});
      }
    }
  }

  void expect_released(const std::vector<Case>& cases) const {
    ASSERT_FALSE(cases.empty());
    const std::vector<StageRelease> all = compiled(cases);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const StageRelease& found = all[i];
      SCOPED_TRACE(cases[i].name());
      EXPECT_GT(found.loads, 0);
      EXPECT_GT(found.arrivals, 0);
      EXPECT_EQ(found.unreached, 0);
      EXPECT_EQ(found.unfenced, 0);
      EXPECT_EQ(found.fences_in_flight, 0);
      EXPECT_EQ(found.early, 0);
      EXPECT_EQ(found.before_fence, 0);
    }
  }

  static Problem f32(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
    return typed_problem(layout, m, n, k, DType::f32, DType::f32);
  }
  static Case on_sm_90(const Problem& problem, const std::string& kernel, const std::string& json) {
    return {nominal_device(best_target(parse_target("sm_90"))),
            problem,
            {kernel, Configuration::parse(json)}};
  }
  /// At ce0d348 loads were in flight when the warps of both tiles arrived.
  static Case one_fragment(int tile_m, int tile_n) {
    Case one = on_sm_90(f32(Layout::tn, 8192, 8192, 64), "simt",
                        R"({"FRAGMENTS":1,"SPECIALIZE_SIZE":1,"TILE_K":8,"UNROLL":8,"PREFETCH":7,
                        "THREAD_M":2,"THREAD_N":8,"SLICE_K":1,"PACK_A":0,"PACK_B":0,
                        "TRANSPOSE_A":0,"TRANSPOSE_B":0,"VECTOR_A":4,"VECTOR_B":4,"GROUP_M":1,
                        "FMA_ORDER":1,"BLOCKS_PER_SM":1,"FRAGMENT_K":1,"MAX_REGISTERS":255,
                        "SPLIT_K":1,"STREAM_K":0,"VECTOR_C":4,"WARP_M":16})");
    one.candidate.configuration.set("TILE_M", tile_m);
    one.candidate.configuration.set("TILE_N", tile_n);
    return one;
  }
  /// At 9f133a6 four loads were in flight when its warps arrived.
  static Case two_fragments() {
    return on_sm_90(f32(Layout::nn, 1024, 1024, 1024), "simt",
                    R"({"BLOCKS_PER_SM":1,"FMA_ORDER":1,"FRAGMENTS":2,"FRAGMENT_K":1,"GROUP_M":1,
                    "MAX_REGISTERS":255,"PACK_A":0,"PACK_B":0,"PREFETCH":6,"SLICE_K":2,
                    "SPECIALIZE_SIZE":1,"SPLIT_K":1,"STREAM_K":0,"THREAD_M":8,"THREAD_N":8,
                    "TILE_K":64,"TILE_M":32,"TILE_N":256,"TRANSPOSE_A":1,"TRANSPOSE_B":0,
                    "UNROLL":32,"VECTOR_A":2,"VECTOR_B":4,"VECTOR_C":4,"WARP_M":4})");
  }
  /// Candidates for which TMA copies one or both operands. Large tiles take long to compile.
  std::vector<Case> simt_by_tma(const Problem& problem) {
    std::vector<Case> cases;
    int prefetch = 0;
    for (const int fragments : {1, 2})
      for (const int specialised : {0, 1}) {
        Subspace subspace = {{"FRAGMENTS", {fragments}},
                             {"SPECIALIZE_SIZE", {specialised}},
                             {"TRANSPOSE_A", {0}},
                             {"VECTOR_A", {4}}};
        subspace["PREFETCH"] = {6 + prefetch++ % 3};
        if (full_) subspace["PREFETCH"] = {6, 7, 8};
        subspace["TILE_K"] = full_ ? std::vector<int>{8, 16, 32} : std::vector<int>{8, 16};
        draw(cases, problem, "simt", subspace, 2);
        subspace["TRANSPOSE_B"] = {0}, subspace["VECTOR_B"] = {4};
        if (full_) draw(cases, problem, "simt", subspace, 2);
      }
    return cases;
  }
  /// Small candidates of both templates and of both FRAGMENTS, which are compiled several times.
  std::vector<Case> one_of_each() {
    std::vector<Case> cases = {one_fragment(64, 16), two_fragments()};
    cases[1].candidate.configuration.set("TILE_K", 16);
    cases[1].candidate.configuration.set("UNROLL", 8);
    for (const int fragments : {1, 2})
      draw(cases, bf16_, "mma", {{"TMA", {1}}, {"FRAGMENTS", {fragments}}, {"TILE_K", {32}}}, 2);
    return cases;
  }

  const Problem bf16_ = typed_problem(Layout::nn, 1024, 1024, 1024, DType::bf16, DType::bf16);

  const bool full_ = std::getenv("TILEWISE_FULL") != nullptr;

 private:
  std::mt19937_64 generator_{5};
  std::size_t turn_ = 0;
};

TEST_F(MachineCode, SimtFencesItsReadsOfAStage) {
  expect_released({one_fragment(256, 32), one_fragment(64, 16), two_fragments()});
}

TEST_F(MachineCode, SimtFencesItsReadsWhereTilesAreWhole) {
  expect_released(simt_by_tma(f32(Layout::tn, 8192, 8192, 64)));
}

TEST_F(MachineCode, SimtFencesItsReadsWhereTilesHaveEdges) {
  expect_released(simt_by_tma(f32(Layout::nn, 1000, 1024, 1000)));
}

TEST_F(MachineCode, MmaFencesItsReadsOfAStage) {
  std::vector<Case> cases;
  for (const DType type : {DType::f64, DType::bf16})
    for (const std::int64_t m : {1024, 1000})
      for (const int fragments : {1, 2}) {
        Subspace subspace = {{"TMA", {1}}, {"FRAGMENTS", {fragments}}};
        if (!full_) subspace["TILE_K"] = {16, 32};
        draw(cases, typed_problem(Layout::nn, m, 1024, 1024, type, type), "mma", subspace, 3);
      }
  expect_released(cases);
}

// wgmma reads its stages and needs no fence: no ordinary load comes between the last instruction on
// a stage and the arrival. C passes through buffers where TMA stores it: it is loaded by TMA, read
// and overwritten. TMA accesses a buffer after the fence that follows these accesses.
TEST_F(MachineCode, WgmmaReadsNoStageByLoads) {
  std::vector<Case> cases;
  for (const DType type : {DType::bf16, DType::e4m3})
    for (const int epilogue : {0, 1, 2})
      draw(cases, typed_problem(Layout::tn, epilogue ? 1024 : 1000, 1024, 1024, type, DType::bf16),
           "wgmma", {{"EPILOGUE", {epilogue}}}, 6);
  const std::vector<StageRelease> all = compiled(cases);
  const std::vector<StageRelease> unfenced = compiled(cases, without_fence_of_buffers);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name());
    EXPECT_GT(all[i].arrivals_of_multiply, 0);
    EXPECT_EQ(all[i].loads_of_multiply, 0);
    const bool by_tma = cases[i].candidate.configuration.at("EPILOGUE") == 2;
    EXPECT_EQ(all[i].tma_stores > 0, by_tma);
    if (by_tma) {
      EXPECT_GT(all[i].loads, 0);
    }
    EXPECT_GT(all[i].tma_loads, 0);
    EXPECT_EQ(all[i].tma_unfenced, 0);
    EXPECT_EQ(unfenced[i].tma_unfenced > 0, by_tma);
  }
}

TEST_F(MachineCode, ReleaseHasNoFenceOfTheGpu) {
  std::vector<Case> cases = {one_fragment(64, 16)};
  draw(cases, bf16_, "mma", {{"TMA", {1}}, {"TILE_K", {32}}}, 2);
  const std::vector<StageRelease> with = compiled(cases), without = compiled(cases, without_fence),
                                  wide = compiled(cases, wide_fence);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name());
    EXPECT_EQ(with[i].fences_gpu, without[i].fences_gpu);
    EXPECT_GT(wide[i].fences_gpu, with[i].fences_gpu);
  }
}

TEST_F(MachineCode, ArrivalsAtEmptyBarriersAreTold) {
  const std::vector<Case> cases = one_of_each();
  const std::vector<StageRelease> with = compiled(cases),
                                  without = compiled(cases, without_arrival);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name());
    EXPECT_GT(with[i].arrivals, 0);
    EXPECT_EQ(without[i].arrivals, 0);
    EXPECT_EQ(without[i].any_arrivals, with[i].any_arrivals - with[i].arrivals);
  }
}

TEST_F(MachineCode, AMissingFenceIsFound) {
  const std::vector<Case> cases = one_of_each();
  for (const auto change : {without_fence, early_fence}) {
    const std::vector<StageRelease> all = compiled(cases, change);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      EXPECT_GT(all[i].arrivals, 0) << cases[i].name();
      EXPECT_EQ(all[i].unfenced, all[i].arrivals) << cases[i].name();
    }
  }
}

}  // namespace
}  // namespace tilewise::machine_code_test
