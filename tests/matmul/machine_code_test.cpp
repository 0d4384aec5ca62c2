// What only the machine code shows: the compiler may move a load past those that the source has
// after it. A warp that frees a stage of a TMA pipeline must have received all that it read there,
// or TMA's next tile may arrive first (mbarrier_arrive_warp() of templates/words/mbarrier.cuh).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/cuda.hpp"
#include "device/elf.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/nvrtc.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::machine_code_test {
namespace {

/// One instruction of sm_90: 16 bytes. Where its fields are was read off nvdisasm's listings.
struct Instruction {
  std::uint64_t low = 0, high = 0;

  bool loads_from_shared() const { return opcode() == 0x984 || opcode() == 0x83b; }  // LDS, LDSM
  /// An arrival at an mbarrier whose address is in an ordinary register, as one that is computed of
  /// loaded values. Where TMA copies both operands, no other has.
  bool arrives_by_loads() const { return opcode() == 0x9a7 && (low >> 24 & 0xff) != 0xff; }
  /// The counter (0 to 5) that the result's arrival counts down; 7: none.
  unsigned result_counter() const { return high >> 46 & 7; }
  bool waits_for(unsigned counter) const { return counter < 6 && (high >> (52 + counter) & 1); }

 private:
  unsigned opcode() const { return low & 0xfff; }
};

struct Found {
  int loads = 0, arrivals = 0;
  int early = 0;  ///< arrivals while a load was in flight
};

/// Looks at the code in its order in memory. Shared-memory loads of a warp end in their order.
Found arrivals_of(Binary text) {
  Found found;
  std::vector<unsigned> in_flight;  // counters of the loads, in their order
  for (std::size_t at = 0; at + 16 <= text.size(); at += 16) {
    const Instruction one{value_at<std::uint64_t>(text, at), value_at<std::uint64_t>(text, at + 8)};
    const auto ended = std::find_if(in_flight.rbegin(), in_flight.rend(),
                                    [&](unsigned counter) { return one.waits_for(counter); });
    in_flight.erase(in_flight.begin(), ended.base());
    if (one.arrives_by_loads()) {
      ++found.arrivals;
      found.early += !in_flight.empty();
    }
    if (!one.loads_from_shared()) continue;
    ++found.loads;
    in_flight.push_back(one.result_counter());
  }
  return found;
}

class MachineCode : public test::NvrtcTest {
 protected:
  void SetUp() override {
    NvrtcTest::SetUp();
    if (IsSkipped()) return;
    if (compiler_->identity().find("NVRTC 13") == std::string::npos)
      GTEST_SKIP() << "the encoding was read off NVRTC 13's code, this is "
                   << compiler_->identity();
  }

  /// `change` alters the kernel's source and headers.
  Found compiled(const Problem& problem, const Candidate& candidate,
                 const std::function<void(KernelSource&)>& change = {}) const {
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    for (const LaunchStep& step : kernel.plan(problem, candidate.configuration, device_).steps) {
      if (step.role != StepRole::multiply) continue;
      KernelSource source = kernel_source(step.kernel.source);
      if (change) change(source);
      const CompileResult made =
          compiler_->compile({step.kernel, source.text, source.headers, device_.target});
      if (!made.image) throw std::runtime_error(made.log);
      return arrivals_of(elf_section(made.image->binary, ".text." + step.kernel.entry));
    }
    throw std::runtime_error("no multiply step");
  }

  std::vector<Candidate> drawn(const Problem& problem, const std::string& kernel,
                               const Subspace& subspace, int count) const {
    const SearchSpace space(problem, device_, select_templates({kernel}), subspace);
    std::mt19937_64 generator(5);
    std::vector<Candidate> candidates;
    for (int i = 0; i < count; ++i)
      if (auto candidate = space.random(generator)) candidates.push_back(std::move(*candidate));
    EXPECT_EQ(candidates.size(), static_cast<std::size_t>(count));
    return candidates;
  }

  void expect_no_early_arrival(const Problem& problem, const std::vector<Candidate>& candidates) {
    ASSERT_FALSE(candidates.empty());
    std::vector<Found> found(candidates.size());
    parallel_for(static_cast<std::int64_t>(candidates.size()), 0, [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(i);
      found[at] = compiled(problem, candidates[at]);
    });
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_GT(found[i].loads, 0) << to_string(candidates[i]);
      EXPECT_GT(found[i].arrivals, 0) << to_string(candidates[i]);
      EXPECT_EQ(found[i].early, 0) << to_string(candidates[i]);
    }
  }

  const DeviceInfo device_ = nominal_device(best_target(parse_target("sm_90")));
  const Problem f32_ = typed_problem(Layout::nn, 1024, 1024, 1024, DType::f32, DType::f32);
  /// At 9f133a6 four loads were in flight when its warps arrived.
  const Candidate two_fragments_ = {
      "simt", Configuration::parse(
                  R"({"BLOCKS_PER_SM":1,"FMA_ORDER":1,"FRAGMENTS":2,"FRAGMENT_K":1,"GROUP_M":1,
                      "MAX_REGISTERS":255,"PACK_A":0,"PACK_B":0,"PREFETCH":6,"SLICE_K":2,
                      "SPECIALIZE_SIZE":1,"SPLIT_K":1,"STREAM_K":0,"THREAD_M":8,"THREAD_N":8,
                      "TILE_K":64,"TILE_M":32,"TILE_N":256,"TRANSPOSE_A":1,"TRANSPOSE_B":0,
                      "UNROLL":32,"VECTOR_A":2,"VECTOR_B":4,"VECTOR_C":4,"WARP_M":4})")};
};

TEST_F(MachineCode, SimtFreesAStageWhenItsReadsHaveEnded) {
  expect_no_early_arrival(f32_, {two_fragments_});
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    const Problem problem = typed_problem(layout, 1000, 1024, 1024, DType::f32, DType::f32);
    for (const int fragments : {1, 2}) {
      const Subspace by_tma = {{"PREFETCH", {6, 7, 8}}, {"FRAGMENTS", {fragments}},
                               {"VECTOR_A", {4}},       {"VECTOR_B", {4}},
                               {"TRANSPOSE_A", {0}},    {"TRANSPOSE_B", {0}}};
      expect_no_early_arrival(problem, drawn(problem, "simt", by_tma, fragments == 2 ? 12 : 4));
    }
  }
}

TEST_F(MachineCode, MmaFreesAStageWhenItsReadsHaveEnded) {
  for (const DType type : {DType::f64, DType::bf16}) {
    const Problem problem = typed_problem(Layout::nn, 1024, 1024, 1024, type, type);
    expect_no_early_arrival(problem, drawn(problem, "mma", {{"TMA", {1}}}, 8));
  }
}

TEST_F(MachineCode, AnEarlyArrivalIsFound) {
  const Found found = compiled(f32_, two_fragments_, [](KernelSource& source) {
    const std::string all = "some_bits_of(sums) ^ sets[0].some_bits() ^ sets[1].some_bits()";
    int changed = 0;
    for (auto& [name, text] : source.headers)
      for (std::size_t at; (at = text.find(all)) != std::string::npos; ++changed)
        text.replace(at, all.size(), "(sets[1].b[0][0] != 0)");
    EXPECT_EQ(changed, 1);
  });
  EXPECT_GT(found.arrivals, 0);
  EXPECT_GT(found.early, 0);
}

}  // namespace
}  // namespace tilewise::machine_code_test
