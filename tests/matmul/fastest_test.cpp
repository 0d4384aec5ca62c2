#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "matmul/fastest.hpp"
#include "matmul/resolve.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::fastest_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The record's time in us per mode (0: no record); a missing mode is unsupported.
using Answers = std::map<MathMode, double>;

struct Asked {
  Problem problem = typed_problem<float, float>(Layout::nn, 256, 256, 256);
  DeviceInfo device = nominal_device(parse_target("sm_90a"));
  Answers answers = {{MathMode::tf32, 0}, {MathMode::f32x3, 0}, {MathMode::strict, 0}};
  std::map<MathMode, std::int64_t> record_k;  ///< if it is not 256
  std::map<MathMode, double> predicted_us;    ///< for answers from another size
  std::string emulated_by = "halves";

  MathMode within(double accuracy) const {
    return fastest_within(problem, accuracy, device, [this](const Problem& asked) {
      const auto found = answers.find(asked.math);
      if (found == answers.end()) throw Error(ErrorKind::unsupported, "no template does it");
      Resolution resolution;
      if (found->second == 0) return resolution;
      resolution.record.emplace().problem = asked;
      if (asked.math == MathMode::emulated) resolution.candidate.kernel_template = emulated_by;
      if (record_k.count(asked.math)) resolution.record->problem.k = record_k.at(asked.math);
      resolution.record->measurement.emplace().median_us = found->second;
      resolution.kind = MatchKind::exact;
      if (predicted_us.count(asked.math)) {
        resolution.kind = MatchKind::predicted;
        resolution.predicted_us = predicted_us.at(asked.math);
      }
      return resolution;
    });
  }
  double bound(MathMode mode) const {
    Problem other = problem;
    other.math = mode;
    return error_bound(other);
  }
};

TEST(FastestWithin, GoesByTheBoundsWhereNothingIsMeasured) {
  const Asked x;
  const double tf32 = x.bound(MathMode::tf32), split = x.bound(MathMode::f32x3),
               strict = x.bound(MathMode::strict);
  ASSERT_TRUE(tf32 > split && split > strict);
  EXPECT_EQ(x.within(tf32), MathMode::tf32);
  EXPECT_EQ(x.within(std::nextafter(tf32, 0)), MathMode::f32x3);
  EXPECT_EQ(x.within(split), MathMode::f32x3);
  EXPECT_EQ(x.within(std::nextafter(split, 0)), MathMode::strict);
  EXPECT_EQ(x.within(strict), MathMode::strict);
  EXPECT_EQ(x.within(std::numeric_limits<double>::infinity()), MathMode::tf32);
}

TEST(FastestWithin, NamesEveryBoundWhenNoneIsGoodEnough) {
  for (const double accuracy : {0.0, -1.0, 1e-12, std::nan("")}) try {
      Asked().within(accuracy);
      ADD_FAILURE() << accuracy;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("tf32 0.00101"), HasSubstr("f32x3 3.15e-05"),
                                      HasSubstr("strict 1.54e-05")));
    }
}

TEST(FastestWithin, GoesByRecordsWhereEveryModeHasOne) {
  Asked x;
  x.answers = {{MathMode::tf32, 9}, {MathMode::f32x3, 20}, {MathMode::strict, 7}};
  EXPECT_EQ(x.within(1), MathMode::strict);
  x.answers[MathMode::strict] = 10;
  EXPECT_EQ(x.within(1), MathMode::tf32);
  EXPECT_EQ(x.within(1e-4), MathMode::strict) << "tf32 is not exact enough to take part";
  x.answers[MathMode::strict] = 0;
  EXPECT_EQ(x.within(1e-4), MathMode::f32x3) << "one that is not measured may be faster";
}

TEST(FastestWithin, AnEmulatedProductCountsOnlyWithARecord) {
  Asked x;
  x.answers = {{MathMode::f32x3, 20}, {MathMode::strict, 30}, {MathMode::emulated, 0}};
  const double enough = x.bound(MathMode::emulated);
  EXPECT_EQ(x.within(enough), MathMode::f32x3);
  x.answers[MathMode::emulated] = 10;
  EXPECT_EQ(x.within(enough), MathMode::emulated);
  x.emulated_by = "simt";  // a strict record, which serves the mode, too
  EXPECT_EQ(x.within(enough), MathMode::f32x3);
  x.emulated_by = "halves";
  x.answers[MathMode::f32x3] = 5;
  EXPECT_EQ(x.within(enough), MathMode::f32x3);
}

TEST(FastestWithin, RecordsOfOtherSizesCountByTheirRate) {
  Asked x;
  x.answers = {{MathMode::tf32, 8}, {MathMode::f32x3, 30}, {MathMode::strict, 3}};
  x.record_k = {{MathMode::tf32, 1024}};  // four times the work: 2 us for the problem
  EXPECT_EQ(x.within(1), MathMode::tf32);
  x.record_k = {{MathMode::tf32, 512}};
  EXPECT_EQ(x.within(1), MathMode::strict);
}

TEST(FastestWithin, APredictionCountsBeforeTheRateOfAnotherSize) {
  Asked x;
  x.answers = {{MathMode::tf32, 8}, {MathMode::f32x3, 30}, {MathMode::strict, 3}};
  x.record_k = {{MathMode::tf32, 1024}};  // 2 us by its rate
  x.predicted_us = {{MathMode::tf32, 4}};
  EXPECT_EQ(x.within(1), MathMode::strict);
  x.predicted_us = {{MathMode::tf32, 2.5}};
  EXPECT_EQ(x.within(1), MathMode::tf32);
}

TEST(FastestWithin, LeavesOutWhatTheDeviceCannotDo) {
  Asked x;
  x.answers.erase(MathMode::tf32);
  EXPECT_EQ(x.within(1), MathMode::f32x3);
  x.device = nominal_device(parse_target("sm_75"));
  EXPECT_EQ(x.within(1), MathMode::strict) << "without tensor cores for it, f32x3 gains nothing";
  x.answers.clear();
  try {
    x.within(1);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

TEST(FastestWithin, SumsOf8BitFloatsAreFastWhereTheBoundAllows) {
  Asked x;
  x.problem = typed_problem<e4m3, bf16>(Layout::nt, 256, 256, 512);
  x.answers = {{MathMode::fast, 0}, {MathMode::strict, 0}};
  const double fast = x.bound(MathMode::fast), strict = x.bound(MathMode::strict);
  ASSERT_GT(fast, 3 * strict) << "sums over 512 of k instead of 128";
  EXPECT_EQ(x.within(fast), MathMode::fast);
  EXPECT_EQ(x.within(std::nextafter(fast, 0)), MathMode::strict);
  x.device = nominal_device(parse_target("sm_80"));
  EXPECT_EQ(x.within(1), MathMode::strict) << "without tensor cores for it, fast gains nothing";
}

TEST(FastestWithin, OtherTypesHaveOneMode) {
  Asked x;
  x.problem = typed_problem<bf16, float>(Layout::nn, 64, 64, 64);
  x.answers = {{MathMode::strict, 0}};
  EXPECT_EQ(x.within(1e-4), MathMode::strict);
  EXPECT_THROW(x.within(1e-9), Error);
  x.problem = typed_problem<std::int8_t, std::int32_t>(Layout::nn, 64, 64, 64);
  EXPECT_EQ(x.within(0), MathMode::strict) << "integers are exact";
}

}  // namespace
}  // namespace tilewise::fastest_test
