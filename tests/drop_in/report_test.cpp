#include "drop_in/drop_in.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/drop_in/tuned.hpp"

namespace tilewise::drop_in {
namespace {

using namespace tilewise::test;
using testing::HasSubstr;
using DropInTest = TunedTest;

TEST_F(DropInTest, ReportsAndRecords) {
  tune();
  const float one = 1, zero = 0;
  Circumstances circumstances;
  Gemm gemm{.m = kM,
            .n = kFaster,
            .k = kK,
            .a = {a_.data(), kF32, kM},
            .b = {b_.data(), kF32, kK},
            .c = {c_.data(), kF32, kM},
            .compute = kCompute32,
            .scalar = kF32,
            .alpha = &one,
            .beta = &zero};
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

TEST_F(DropInTest, ManyProblemsStayBoundedAndRight) {
  Settings settings;
  settings.device = "host";
  DropIn drop_in(settings);
  const float one = 1, zero = 0;
  Circumstances circumstances;
  for (int i = 0; i < 70'000; ++i) {
    const Gemm gemm{.m = 1 + i % 300,
                    .n = 1 + i / 300,
                    .k = 2,
                    .a = {a_.data(), kF32, 300},
                    .b = {b_.data(), kF32, 2},
                    .c = {c_.data(), kF32, 300},
                    .compute = kCompute32,
                    .scalar = kF32,
                    .alpha = &one,
                    .beta = &zero};
    ASSERT_FALSE(drop_in.consider(gemm, circumstances).answered);
  }
  EXPECT_THAT(drop_in.report(), HasSubstr("passed through 65,536: not tuned on this GPU"));
  EXPECT_THAT(drop_in.report(), HasSubstr("passed through 4,464: too many different problems"));
}

}  // namespace
}  // namespace tilewise::drop_in
