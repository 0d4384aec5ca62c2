#include "drop_in/drop_in.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/machines.hpp"
#include "drop_in/product.hpp"
#include "matmul/prediction.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/sum_order.hpp"

#include "tests/drop_in/tuned.hpp"

namespace tilewise::drop_in {
namespace {

using namespace tilewise::test;
using testing::AllOf;
using testing::HasSubstr;

struct DropInTest : TunedTest {
  Gemm gemm_of(int n) {
    return {.m = kM,
            .n = n,
            .k = kK,
            .a = {a_.data(), kF32, kM},
            .b = {b_.data(), kF32, kK},
            .c = {c_.data(), kF32, kM},
            .compute = kCompute32,
            .scalar = kF32,
            .alpha = &one,
            .beta = &zero};
  }
  const float one = 1, zero = 0;
};

// A graph with nodes that allocate cannot be cloned.
TEST_F(DropInTest, ACaptureIsAnsweredWhereTheWorkspaceOfTheCallSuffices) {
  constexpr int kDeep = 1000;
  std::vector<float> a(kM * kDeep, 1), b(kDeep * kFaster, 1), c(kM * kFaster);
  const Gemm gemm{.m = kM,
                  .n = kFaster,
                  .k = kDeep,
                  .a = {a.data(), kF32, kM},
                  .b = {b.data(), kF32, kDeep},
                  .c = {c.data(), kF32, kM},
                  .compute = kCompute32,
                  .scalar = kF32,
                  .alpha = &one,
                  .beta = &zero};
  Product product;
  ASSERT_EQ(product_of(gemm, kDefaultMath, product), Why::none);
  const std::unique_ptr<Device> device = open_device("host");
  const KernelTemplate& simt = find_template("simt");
  Record record;
  record.problem = product.problem;
  record.gpu = gpu_key(device->info());
  record.candidate = {"simt", simt.default_configuration(record.problem, device->info())};
  record.candidate.configuration.set("SPLIT_K", 4);
  ASSERT_EQ(rejection(simt, record.problem, record.candidate.configuration, device->info()), "");
  record.outcome = Outcome::ok;
  record.measurement = Measurement{};
  record.measurement->median_us = 1;
  {
    Database stored = Database::open(database());
    stored.set_winner(stored.add(record));
  }
  const std::int64_t needed =
      plan_of(record.candidate, record.problem, device->info()).workspace_bytes;
  ASSERT_GT(needed, 0);
  std::vector<std::max_align_t> workspace(std::size_t(needed) / sizeof(std::max_align_t) + 1);

  Settings settings;
  settings.device = "host";
  settings.always = true;
  DropIn answering(settings);
  Circumstances circumstances;
  circumstances.stream = device->create_stream();
  ASSERT_TRUE(answering.consider(gemm, circumstances).answered);  // loads what a capture may not
  const std::vector<float> expected(c.size(), float(kDeep));
  EXPECT_EQ(c, expected);
  std::unique_ptr<LaunchGraph> graph;
  const auto is_captured = [&](std::int64_t bytes) {
    circumstances.workspace = workspace.data();
    circumstances.workspace_bytes = bytes;
    bool answered = false;
    const auto multiply = [&] { answered = answering.consider(gemm, circumstances).answered; };
    try {
      graph = device->capture(circumstances.stream, multiply);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("nothing was enqueued"));
    }
    return answered;
  };
  EXPECT_FALSE(is_captured(0));
  EXPECT_FALSE(is_captured(needed - 1));
  ASSERT_TRUE(is_captured(needed));
  std::fill(c.begin(), c.end(), -1.0F);
  graph->launch(circumstances.stream);
  device->synchronize(circumstances.stream);
  EXPECT_EQ(c, expected);
  device->destroy_stream(circumstances.stream);
}

TEST_F(DropInTest, ReportsAndRecords) {
  tune();
  Circumstances circumstances;
  Gemm gemm = gemm_of(kFaster);
  Settings settings;
  settings.device = "host";
  DropIn answering(settings);
  for (int i = 0; i < 1500; ++i) EXPECT_TRUE(answering.consider(gemm, circumstances).answered);
  gemm.n = kSlower;
  EXPECT_FALSE(answering.consider(gemm, circumstances).answered);
  gemm.n = kUntuned;
  EXPECT_FALSE(answering.consider(gemm, circumstances).answered);
  const std::string report = answering.report();
  EXPECT_THAT(report, HasSubstr("1,502 products of cuBLAS: 1,500 answered, 2 passed through"));
  EXPECT_THAT(report, HasSubstr("of GPU time saved"));
  EXPECT_THAT(report, HasSubstr("passed through 1: cuBLAS was faster"));
  EXPECT_THAT(report, HasSubstr("passed through 1: not tuned on this GPU"));

  settings.record = file("list.csv").string();
  DropIn recording(settings);
  gemm.n = kFaster;
  for (int i = 0; i < 12; ++i) {
    const DropIn::Outcome outcome = recording.consider(gemm, circumstances);
    ASSERT_FALSE(outcome.answered);
    ASSERT_NE(outcome.timed, nullptr);
    Samples::Sample* const sample = recording.begin_timing(*outcome.timed, nullptr);
    ASSERT_EQ(sample != nullptr, i < Samples::kMost);
    const bool loads = i == 0 || i >= Samples::kMost;
    std::this_thread::sleep_for(std::chrono::milliseconds(loads ? 500 : 2));
    if (sample) recording.end_timing(*outcome.timed, *sample, nullptr);
  }
  gemm.c.ld = kM + 4;
  EXPECT_FALSE(recording.consider(gemm, circumstances).answered);
  const std::string record = recording.record();
  EXPECT_THAT(record, HasSubstr("nn,40,24,16,f32,f32,strict,1,16/16/16,,12,"));
  EXPECT_THAT(record, HasSubstr(",16,24,24\n"));
  EXPECT_THAT(record, HasSubstr(",16,24,28\n"));
  // The first call takes longer; the median leaves it out. Later calls are not sampled.
  const auto at = record.find("strict,1,16/16/16,,12,");
  const double us =
      std::strtod(record.c_str() + at + std::string("strict,1,16/16/16,,12,").size(), nullptr);
  EXPECT_GE(us, 1500);
  EXPECT_LE(us, 40'000);
}

// TILEWISE_DROP_IN_EMULATE=1 is for f64 alone.
TEST_F(DropInTest, ProductsInF64AndF32MayBeEmulatedOnRequest) {
  std::vector<double> a(kM * kK, 1), b(kK * kFaster, 1), c(kM * kFaster);
  const double one_f64 = 1, zero_f64 = 0;
  const Gemm gemm{.m = kM,
                  .n = kFaster,
                  .k = kK,
                  .a = {a.data(), kF64, kM},
                  .b = {b.data(), kF64, kK},
                  .c = {c.data(), kF64, kM},
                  .compute = kCompute64,
                  .scalar = kF64,
                  .alpha = &one_f64,
                  .beta = &zero_f64};
  Settings settings;
  settings.device = "host";
  settings.record = file("list.csv").string();
  Circumstances circumstances;
  for (const bool emulate : {false, true}) {
    settings.emulate = emulate;
    DropIn recording(settings);
    for (const Gemm& of : {gemm, gemm_of(kFaster)})
      EXPECT_FALSE(recording.consider(of, circumstances).answered);
    const std::string record = recording.record();
    EXPECT_THAT(record, HasSubstr(emulate ? ",f64,f64,emulated," : ",f64,f64,strict,"));
    EXPECT_THAT(record, HasSubstr(emulate ? ",f32,f32,emulated," : ",f32,f32,strict,"));
  }
}

TEST_F(DropInTest, WithoutARecordOfTheModeTheStrictOneAnswers) {
  tune();
  Settings settings;
  settings.device = "host";
  settings.emulate = true;
  DropIn drop_in(settings);
  Circumstances circumstances;
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(drop_in.consider(gemm_of(kFaster), circumstances).answered);
}

// A list of what a program multiplied has the epilogues, so that they are tuned.
TEST_F(DropInTest, RecordsEpilogues) {
  Settings settings;
  settings.device = "host";
  settings.record = file("list.csv").string();
  DropIn recording(settings);
  std::vector<float> bias(kM, 1.0F);
  Circumstances circumstances;
  Gemm gemm = gemm_of(kFaster);
  gemm.epilogue = kLtRelu | kLtWithBias;
  gemm.bias = {bias.data(), kF32, 0};
  for (int i = 0; i < 2; ++i) {
    const DropIn::Outcome outcome = recording.consider(gemm, circumstances);
    EXPECT_FALSE(outcome.answered);
    EXPECT_NE(outcome.timed, nullptr);
  }
  EXPECT_THAT(recording.record(), HasSubstr("relu((acc+p0[j]))"));
}

TEST_F(DropInTest, ManyProblemsStayBoundedAndRight) {
  Settings settings;
  settings.device = "host";
  DropIn drop_in(settings);
  Circumstances circumstances;
  const std::vector<float> a(300 * 2), b(2 * 240);
  std::vector<float> c(300 * 240);  // apart from both: what may overlap is not kept
  for (int i = 0; i < 70'000; ++i) {
    const Gemm gemm{.m = 1 + i % 300,
                    .n = 1 + i / 300,
                    .k = 2,
                    .a = {a.data(), kF32, 300},
                    .b = {b.data(), kF32, 2},
                    .c = {c.data(), kF32, 300},
                    .compute = kCompute32,
                    .scalar = kF32,
                    .alpha = &one,
                    .beta = &zero};
    ASSERT_FALSE(drop_in.consider(gemm, circumstances).answered);
  }
  EXPECT_THAT(drop_in.report(), HasSubstr("passed through 65,536: not tuned on this GPU"));
  EXPECT_THAT(drop_in.report(), HasSubstr("passed through 4,464: too many different problems"));
}

struct Invariant : DropInTest {
  static Settings settings() {
    Settings settings;
    settings.device = "host";
    settings.invariant = true;
    return settings;
  }
  Circumstances circumstances;
};

// Rows of C in row-major terms are columns in cuBLAS's.
TEST_F(Invariant, EveryProductIsAnsweredWithTheSameBitsInEveryBatch) {
  std::mt19937 random(3);
  for (std::vector<float>* matrix : {&a_, &b_})
    for (float& value : *matrix) value = static_cast<float>(random()) / 0x1p31F - 1;
  tune();
  DropIn drop_in(settings());
  Gemm all = gemm_of(kFaster);
  EXPECT_TRUE(drop_in.may_answer(all));
  ASSERT_TRUE(drop_in.consider(all, circumstances).answered);
  const std::vector<float> whole = c_;
  for (const int n : {1, 7, kFaster - 3}) {
    std::fill(c_.begin(), c_.end(), -1.0F);
    ASSERT_TRUE(drop_in.consider(gemm_of(n), circumstances).answered) << n;
    EXPECT_TRUE(std::equal(c_.begin(), c_.begin() + n * kM, whole.begin())) << n;
  }
  EXPECT_THAT(drop_in.report(), HasSubstr("4 products of cuBLAS: 4 answered, 0 refused"));
}

TEST_F(Invariant, ProductsAreNotEmulated) {
  tune();
  Settings both = settings();
  both.emulate = true;
  DropIn drop_in(both);
  ASSERT_TRUE(drop_in.consider(gemm_of(kFaster), circumstances).answered);
  EXPECT_THAT(drop_in.report(), AllOf(HasSubstr("f32 strict"), Not(HasSubstr("emulated"))));
}

TEST_F(Invariant, WhatCannotBeAnsweredIsRefusedLoudlyAndOnce) {
  DropIn drop_in(settings());
  Gemm pedantic = gemm_of(8);
  circumstances.math = 2;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    const DropIn::Outcome outcome = drop_in.consider(pedantic, circumstances);
    EXPECT_TRUE(outcome.refused);
    EXPECT_FALSE(outcome.answered);
  }
  EXPECT_TRUE(drop_in.refuses_function());
  EXPECT_TRUE(drop_in.not_answered(Why::described).refused);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;
  EXPECT_THAT(said, HasSubstr("modes with other results"));
  circumstances.math = kDefaultMath;
  Gemm empty = gemm_of(8);
  empty.k = 0;
  EXPECT_FALSE(drop_in.consider(empty, circumstances).refused) << "there are no sums";
  EXPECT_THAT(drop_in.report(), HasSubstr("refused 3: modes with other results"));
}

TEST_F(Invariant, AnOrderThatNoKernelHasIsRefused) {
  Database::open(database())
      .put({order_key(typed_problem(Layout::nn, 1, kM, kK, DType::f32, DType::f32)),
            gpu_key(open_device("host")->info()), "tensor16", ""});
  DropIn drop_in(settings());
  testing::internal::CaptureStderr();
  EXPECT_TRUE(drop_in.consider(gemm_of(8), circumstances).refused);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("no kernel in the kept order"), HasSubstr("tensor16")));
  Gemm other = gemm_of(8);
  other.m = 20;
  EXPECT_TRUE(drop_in.consider(other, circumstances).answered) << "one refusal is no fault";
}

TEST_F(Invariant, NothingIsRefusedWhereItIsOffOrRecords) {
  Settings off = settings();
  off.on = false;
  DropIn is_off(off);
  EXPECT_FALSE(is_off.consider(gemm_of(8), circumstances).refused);
  EXPECT_FALSE(is_off.refuses_function());
  Settings records = settings();
  records.record = file("list.csv").string();
  DropIn recording(records);
  EXPECT_FALSE(recording.consider(gemm_of(8), circumstances).refused);
  EXPECT_FALSE(recording.refuses_function());
  Settings plain = settings();
  plain.invariant = false;
  DropIn usual(plain);
  EXPECT_FALSE(usual.refuses_function());
}

}  // namespace
}  // namespace tilewise::drop_in
