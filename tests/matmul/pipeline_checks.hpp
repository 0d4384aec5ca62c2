#pragma once
// Pipelines by TMA under load: few multiplications per loaded value, so that many shared-memory
// loads are in flight when a stage becomes empty. A copy that starts too early corrupts only a few
// of a million tiles. The checks therefore use many blocks, repeated launches, whole numbers, and a
// comparison of every bit on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "tests/matmul/on_device.hpp"
#include "tests/matmul/whole_numbers.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::test {

class Pipelines : public OnDevice {
 protected:
  /// Types of the operands and of C, and the math mode.
  struct Kind {
    DType operand, c;
    MathMode math;
  };

  using OnDevice::OnDevice;
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    if (!has(device_->info().features, Feature::tma)) GTEST_SKIP() << "no TMA on this device";
  }

  /// Requires that the candidate's result equals that of the template naive, `times` times.
  void check(Problem problem, const Kind& kind, const char* name, const Configuration& changed,
             int times) {
    set_types(problem, kind.operand, kind.c, kind.math);
    set_alignment(problem, natural_alignment(problem));
    const DeviceBuffer a = numbers(problem.a.type, problem.m * problem.k, 3);
    const DeviceBuffer b = numbers(problem.b.type, problem.k * problem.n, 5);
    const std::int64_t bytes = problem.m * problem.n * bytes_of(problem.c.type);
    const DeviceBuffer expected(*device_, bytes), found(*device_, bytes);
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = expected.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = problem.n;

    const KernelTemplate& naive = find_template("naive");
    Problem strict = problem;  // whole numbers are exact in every mode
    strict.math = MathMode::strict;
    made(naive, strict, {}).launch(call);

    const Executable pipeline = made(find_template(name), problem, changed);
    call.c = found.data();
    device_->fill32(found.data(), 0x7fc00000, bytes / 4, nullptr);
    int wrong = 0;
    std::int64_t first = -1;
    for (int i = 0; i < times; ++i) {
      pipeline.launch(call);
      const std::int64_t difference = first_difference(expected, found);
      if (difference < 0) continue;
      ++wrong;
      first = difference / bytes_of(problem.c.type);
    }
    EXPECT_EQ(wrong, 0) << "of " << times << ' ' << to_string(problem) << ' ' << changed.text()
                        << ", lastly C[" << first / problem.n << "][" << first % problem.n << ']';
  }

 private:
  /// The offset of the first differing byte; -1 without one. Fills `found` with NaNs.
  std::int64_t first_difference(const DeviceBuffer& expected, const DeviceBuffer& found) {
    std::int64_t first = -1;
    if (!device_->known_equal(expected.data(), found.data(), found.bytes(), nullptr)) {
      const auto one = downloaded(expected), other = downloaded(found);
      const auto place = std::mismatch(one.begin(), one.end(), other.begin()).first;
      if (place != one.end()) first = place - one.begin();
    }
    device_->fill32(found.data(), 0x7fc00000, found.bytes() / 4, nullptr);
    return first;
  }
  std::vector<std::byte> downloaded(const DeviceBuffer& buffer) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
    device_->copy_to_host(bytes.data(), buffer.data(), buffer.bytes(), nullptr);
    device_->synchronize(nullptr);
    return bytes;
  }
  DeviceBuffer numbers(DType type, std::int64_t count, unsigned seed) {
    Elements elements(type, count, 0);
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < count; ++i) elements.set(i, int(random() % 5) - 2);
    return uploaded(elements.memory.data(), elements.bytes());
  }
  Executable made(const KernelTemplate& kernel, const Problem& problem,
                  const Configuration& changed) {
    Configuration configuration = kernel.default_configuration(problem, device_->info());
    for (const auto& [name, value] : changed.values()) configuration.set(name, value);
    EXPECT_EQ(rejection(kernel, problem, configuration, device_->info()), "");
    const Plan plan = kernel.plan(problem, configuration, device_->info());
    std::vector<Image> images;
    for (const LaunchStep& step : plan.steps) {
      const KernelSource& source = kernel_source(step.kernel.source);
      CompileResult result =
          compiler_->compile({step.kernel, source.text, source.headers, device_->info().target});
      EXPECT_TRUE(result.image) << result.log;
      images.push_back(std::move(result.image).value());
    }
    return Executable(*device_, problem, plan, images);
  }
};

/// All pipelines on products of one size, `times` times each.
class EveryPipeline : public Pipelines {
 protected:
  using Pipelines::Pipelines;
  void check_mma(std::int64_t m, std::int64_t n, std::int64_t k, int times) {
    const Kind f64{DType::f64, DType::f64, MathMode::strict},
        tf32{DType::f32, DType::f32, MathMode::tf32},
        bf16{DType::bf16, DType::f32, MathMode::strict};
    const Problem problem = make_problem(Layout::nn, m, n, k);
    // On an H200, up to nine of ten launches of the first three were wrong when a stage was
    // released before its loads had completed.
    check(problem, f64, "mma", tiles(16, 128, 8, 16, 32, 3), times);
    check(problem, f64, "mma", tiles(16, 128, 8, 16, 32, 4), times);
    check(problem, f64, "mma", tiles(32, 32, 8, 16, 16, 6), times);
    check(problem, f64, "mma", tiles(64, 64, 8, 16, 64, 5), times);
    check(problem, f64, "mma", tiles(16, 64, 8, 16, 16, 3), times);
    check(problem, tf32, "mma", tiles(32, 64, 8, 16, 32, 2), times);
    check(problem, bf16, "mma", tiles(32, 64, 16, 16, 32, 3), times);
    for (const int stages : {2, 3, 4}) {
      Configuration ahead = tiles(16, 128, 16, 16, 32, stages);
      ahead.set("FRAGMENTS", 2);
      check(problem, f64, "mma", ahead, times);
      ahead.set("SPECIALIZE_SIZE", 0);
      check(problem, f64, "mma", ahead, times);
    }
    Configuration ahead = tiles(32, 64, 32, 16, 32, 3);
    ahead.set("FRAGMENTS", 2);
    check(problem, bf16, "mma", ahead, times);
  }
  /// The epilogue scratch (rows of C, partial sums of sliced-K) is larger than the stages and must
  /// not overwrite their mbarriers.
  void check_epilogue(std::int64_t m, std::int64_t n, std::int64_t k, int times) {
    const Kind f64{DType::f64, DType::f64, MathMode::strict},
        bf16{DType::bf16, DType::f32, MathMode::strict};
    const Problem problem = make_problem(Layout::nn, m, n, k);
    Configuration rows = tiles(64, 64, 8, 16, 64, 5);
    for (const auto& [name, value] :
         {std::pair{"PACK_B", 2}, {"EPILOGUE", 1}, {"SPECIALIZE_SIZE", 0}, {"GROUP_M", 16}})
      rows.set(name, value);
    check(problem, f64, "mma", rows, times);
    Configuration groups = tiles(128, 128, 32, 64, 64, 2);
    groups.set("SLICE_K", 2), groups.set("BLOCKS_PER_SM", 1);
    check(problem, bf16, "mma", groups, times);
    groups.set("EPILOGUE", 1);
    check(problem, bf16, "mma", groups, times);
  }
  void check_simt(std::int64_t m, std::int64_t n, std::int64_t k, int times) {
    const Kind f32{DType::f32, DType::f32, MathMode::strict};
    const Problem problem = make_problem(Layout::tn, m, n, k);
    Configuration small{{"TILE_M", 32},  {"TILE_N", 32},  {"TILE_K", 8},   {"THREAD_M", 2},
                        {"THREAD_N", 4}, {"WARP_M", 4},   {"UNROLL", 8},   {"VECTOR_A", 4},
                        {"VECTOR_B", 4}, {"VECTOR_C", 4}, {"PREFETCH", 6}, {"BLOCKS_PER_SM", 4}};
    check(problem, f32, "simt", small, times);
    small.set("PREFETCH", 8);
    check(problem, f32, "simt", small, times);
    small.set("FRAGMENTS", 2);
    check(problem, f32, "simt", small, times);
    small.set("SPECIALIZE_SIZE", 1);
    check(problem, f32, "simt", small, times);
  }

  /// Checks clusters, consumers in turn, each epilogue, and sums that another step adds.
  void check_wgmma(std::int64_t m, std::int64_t n, std::int64_t k, int times) {
    const Kind bf16{DType::bf16, DType::bf16, MathMode::strict},
        i8{DType::i8, DType::i32, MathMode::strict},
        e4m3{DType::e4m3, DType::f32, MathMode::strict},
        tf32{DType::f32, DType::f32, MathMode::tf32},
        f32x3{DType::f32, DType::f32, MathMode::f32x3};
    const Problem problem = make_problem(Layout::nt, m, n, k);
    if (!has(device_->info().features, Feature::wgmma)) GTEST_SKIP() << "no wgmma on this device";
    const auto with = [](Configuration all,
                         std::initializer_list<std::pair<const char*, int>> changed) {
      for (const auto& [name, value] : changed) all.set(name, value);
      return all;
    };
    const Configuration shallow = warpgroups(2, 2), deep = warpgroups(2, 4);
    check(problem, bf16, "wgmma", shallow, times);
    check(problem, bf16, "wgmma", with(shallow, {{"CLUSTER_M", 2}}), times);
    check(problem, bf16, "wgmma", with(deep, {{"CLUSTER_N", 2}, {"EPILOGUE", 1}}), times);
    check(problem, bf16, "wgmma",
          with(shallow, {{"TILE_M", 64}, {"PING_PONG", 1}, {"EPILOGUE", 2}}), times);
    check(problem, bf16, "wgmma",
          with(deep, {{"TILE_M", 64}, {"TILE_N", 128}, {"SWAP_AB", 1}, {"EPILOGUE", 2}}), times);
    check(problem, bf16, "wgmma", with(deep, {{"EPILOGUE", 3}}), times);
    check(problem, bf16, "wgmma", with(shallow, {{"SPLIT_K", 2}}), times);
    check(make_problem(Layout::nn, m, n, k), bf16, "wgmma", deep, times);
    check(problem, i8, "wgmma", with(shallow, {{"TILE_K", 128}}), times);
    check(problem, e4m3, "wgmma", with(shallow, {{"TILE_K", 128}, {"PROMOTE", 1}}), times);
    check(problem, tf32, "wgmma", with(shallow, {{"TILE_K", 32}}), times);
    check(problem, f32x3, "wgmma", with(shallow, {{"TILE_K", 16}, {"PROMOTE", 1}}), times);
  }

 private:
  static Configuration warpgroups(int consumers, int stages) {
    return {{"TILE_M", 128},    {"TILE_N", 64},       {"TILE_K", 64},  {"CONSUMERS", consumers},
            {"STAGES", stages}, {"EPILOGUE", 0},      {"VECTOR_C", 1}, {"CLUSTER_M", 1},
            {"CLUSTER_N", 1},   {"SWAP_AB", 0},       {"SPLIT_K", 1},  {"STREAM_K", 0},
            {"GROUP_M", 4},     {"BLOCKS_PER_SM", 1}, {"PING_PONG", 0}};
  }
  static Configuration tiles(int m, int n, int k, int warp_m, int warp_n, int stages) {
    return {{"TILE_M", m},      {"TILE_N", n},      {"TILE_K", k},   {"WARP_M", warp_m},
            {"WARP_N", warp_n}, {"STAGES", stages}, {"TMA", 1},      {"FRAGMENTS", 1},
            {"BYTES_A", 16},    {"BYTES_B", 16},    {"SLICE_K", 1},  {"SPECIALIZE_SIZE", 1},
            {"GROUP_M", 4},     {"EPILOGUE", 0},    {"VECTOR_C", 2}, {"BLOCKS_PER_SM", 2}};
  }
};

}  // namespace tilewise::test
