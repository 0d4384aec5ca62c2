// What compare reads, reckons and prints: plain values, no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/compare/report.hpp"
#include "bench/compare/shapes.hpp"
#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

std::vector<Problem> shapes(const std::string& lines) {
  std::istringstream csv("layout,m,n,k\n" + lines);
  return read_shapes(csv);
}

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> made;
  for (const Problem& problem : problems)
    made.push_back(std::string(tilewise::to_string(problem.layout)) + " " + size_text(problem));
  return made;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Shapes, AreReadInOrderWithTheAlignmentOfPackedRows) {
  const auto read = shapes("nn,128,256,512\n\n# a remark\r\nnt,1,4096,4095\r\n");
  EXPECT_THAT(texts(read), ElementsAre("nn 128x256x512", "nt 1x4096x4095"));
  EXPECT_EQ(read[0].alignment, (Alignment{16, 16, 16}));
  EXPECT_EQ(read[1].alignment, (Alignment{4, 4, 16}));
}

TEST(Shapes, ABadLineIsNamedWithWhatIsAllowed) {
  EXPECT_THAT(error_of([] { shapes("nn,1,2,3\nnn,1,2\n"); }), HasSubstr("line 3"));
  EXPECT_THAT(error_of([] { shapes("nn,0,2,3\n"); }), HasSubstr("'0'"));
  EXPECT_THAT(error_of([] { shapes("nn,1,2,3x\n"); }), HasSubstr("1 to 2^40"));
  EXPECT_THAT(error_of([] { shapes("xx,1,2,3\n"); }), HasSubstr("nn, nt, tn, tt"));
  EXPECT_THAT(error_of([] { shapes(""); }), HasSubstr("no shape"));
  std::istringstream headless("nn,1,2,3\n");
  EXPECT_THAT(error_of([&] { read_shapes(headless); }), HasSubstr("layout,m,n,k"));
  EXPECT_THAT(error_of([] { read_shapes_file("/nowhere/shapes.csv"); }),
              HasSubstr("/nowhere/shapes.csv"));
}

TEST(Shapes, ThePublicGridHasTwentyNine) {
  EXPECT_EQ(read_shapes_file(TILEWISE_SOURCE_DIR "/bench/shapes/public.csv").size(), 29U);
}

TEST(Shapes, OnlyTakesLayoutsSizesAndBoth) {
  const auto all = shapes("nn,64,64,64\nnt,64,64,64\nnt,8,64,64\ntn,8,64,64\n");
  EXPECT_EQ(only(all, "").size(), 4U);
  EXPECT_THAT(texts(only(all, "nt")), ElementsAre("nt 64x64x64", "nt 8x64x64"));
  EXPECT_THAT(texts(only(all, "64")), ElementsAre("nn 64x64x64", "nt 64x64x64"));
  EXPECT_THAT(texts(only(all, "tn:8x64x64,nn:64")), ElementsAre("nn 64x64x64", "tn 8x64x64"));
  EXPECT_THAT(error_of([&] { only(all, "nt,65"); }), HasSubstr("'65' names no shape"));
  EXPECT_THAT(error_of([&] { only(all, "nn:8x64x64"); }), HasSubstr("names no shape"));
}

Row row(std::int64_t size, double tuned, double cublas, double pedantic, double lt) {
  Row made;
  made.problem.m = made.problem.n = made.problem.k = size;
  made.match.kind = MatchKind::exact;
  made.match.candidate.kernel_template = "simt";
  const double times[] = {tuned, cublas, pedantic, lt};
  for (const Player player : kPlayers) {
    Column& column = made.columns.emplace_back();
    column.player = player;
    const double us = times[static_cast<int>(player)];
    if (us > 0) column.measurement.emplace().median_us = us;
  }
  return made;
}

TEST(Ratio, IsAgainstTheFastestOfTheOthers) {
  EXPECT_DOUBLE_EQ(ratio_of(row(64, 10, 15, 14, 12)).value(), 1.2);
  EXPECT_DOUBLE_EQ(ratio_of(row(64, 10, 9, 14, 12)).value(), 0.9);
  EXPECT_DOUBLE_EQ(ratio_of(row(64, 10, 15, 0, 0)).value(), 1.5);
  EXPECT_FALSE(ratio_of(row(64, 10, 0, 0, 0)).has_value());
  EXPECT_FALSE(ratio_of(row(64, 0, 15, 14, 12)).has_value());
}

TEST(Floor, IsTheLargestOfArithmeticBytesAndTheSmallestKernel) {
  const Rates rates{64e12, 4e12, ""};
  EXPECT_DOUBLE_EQ(floor_us(row(4096, 1, 1, 1, 1).problem, rates),
                   2.0 * 4096 * 4096 * 4096 / 64e12 * 1e6);
  Problem skinny = row(4096, 1, 1, 1, 1).problem;
  skinny.m = 1;
  EXPECT_DOUBLE_EQ(floor_us(skinny, rates), (4096.0 * 4096 + 2 * 4096) * 4 / 4e12 * 1e6);
  EXPECT_DOUBLE_EQ(floor_us(row(128, 1, 1, 1, 1).problem, rates), 2);
  EXPECT_EQ(floor_us(row(128, 1, 1, 1, 1).problem, Rates{64e12, 0, ""}), 0);
}

TEST(Floor, RatesAreThoseGivenElseOfTheH200ElseOfTheDevice) {
  DeviceInfo h200 = nominal_device({9, 0, true});
  h200.name = "NVIDIA H200";
  EXPECT_DOUBLE_EQ(rates_for(h200, 0, 0).flops, 64.6e12);
  EXPECT_DOUBLE_EQ(rates_for(h200, 0, 0).bytes, 4.29e12);
  EXPECT_DOUBLE_EQ(rates_for(h200, 50e12, 3e12).bytes, 3e12);
  EXPECT_EQ(rates_for(h200, 50e12, 3e12).source, "given");
  EXPECT_THAT(rates_for(h200, 50e12, 0).source, HasSubstr("one of them given"));
  DeviceInfo other = nominal_device({8, 0, false});
  other.multiprocessors = 100, other.clock_khz = 1'000'000;
  EXPECT_DOUBLE_EQ(rates_for(other, 0, 0).flops, peak_flops(other));
}

TEST(Summary, CountsMeansAndNamesTheWorst) {
  std::vector<Row> rows{row(1024, 10, 20, 30, 30),  row(2048, 10, 9.8, 30, 30),
                        row(3072, 10, 9.6, 30, 30), row(4096, 10, 5, 30, 30),
                        row(5120, 10, 0, 0, 0),     row(6144, 0, 0, 0, 0)};
  rows[1].match.kind = MatchKind::nearest;
  rows[5].error = "no memory";
  const Summary summary = summarize(rows, {});
  EXPECT_EQ(summary.compared, 4);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.not_exact, 1);
  EXPECT_NEAR(summary.geometric_mean, std::pow(2 * 0.98 * 0.96 * 0.5, 0.25), 1e-12);
  EXPECT_DOUBLE_EQ(summary.minimum, 0.5);
  EXPECT_THAT(summary.worst, ElementsAre(&rows[3], &rows[2], &rows[1]));
  EXPECT_EQ(summary.below_100, 3);
  EXPECT_EQ(summary.below_097, 2);
  EXPECT_EQ(summary.over_floor, 0) << "no rates are known";
}

TEST(Summary, TimeOverTheFloorIsAGeometricMeanOfAllThatWereTimed) {
  // 2 us are the floor of each.
  const std::vector<Row> rows{row(64, 4, 8, 0, 0), row(128, 16, 2, 0, 0)};
  const Summary summary = summarize(rows, {1e15, 1e15, ""});
  EXPECT_NEAR(summary.over_floor, 4, 1e-12);
  EXPECT_NEAR(summary.cublas_over_floor, 2, 1e-12);
}

TEST(Summary, OfNothingIsEmpty) {
  const Summary summary = summarize({}, {});
  EXPECT_EQ(summary.compared + summary.failed, 0);
  EXPECT_EQ(summary.geometric_mean, 0);
  EXPECT_TRUE(summary.worst.empty());
}

Report report() {
  Report made;
  made.envelope = {"bench/compare", "abc", "2026-11-21", "GPU", "1", "NVRTC 13.0", 1980, 700};
  made.rates = {1e12, 1e12, "given"};
  made.rows = {row(1024, 10, 12.5, 13, 0), row(2048, 0, 0, 0, 0)};
  made.rows[0].match.kind = MatchKind::default_;
  made.rows[0].columns[3].detail = "no library";
  made.rows[1].match.candidate = {};
  made.rows[1].error = "out of memory";
  return made;
}

TEST(Report, TheTableShowsTimesMarksDefaultsAndSaysWhatIsMissing) {
  const std::string text = table_text(report());
  EXPECT_THAT(text, HasSubstr("nn 1024x1024x1024  default"));
  EXPECT_THAT(text, HasSubstr("1.25x"));
  EXPECT_THAT(text, HasSubstr("no cublas_lt_best: no library"));
  EXPECT_THAT(text, HasSubstr("nn 2048x2048x2048: error: out of memory"));
  EXPECT_THAT(text, HasSubstr("1 served without a winner of their own, 1 failed"));
  std::vector<std::size_t> ends;  // columns stand under one another
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("shape", 0) == 0 || line.rfind("nn ", 0) == 0)
      if (line.find(": error") == std::string::npos) ends.push_back(line.size());
  EXPECT_THAT(ends, ElementsAre(ends[0], ends[0], ends[0]));
}

TEST(Report, TheJsonCarriesEnvelopeColumnsAndNulls) {
  const Json json = Json::parse(json_text(report()));
  EXPECT_EQ(json.at("gpu"), "GPU");
  EXPECT_EQ(json.at("power_limit_w"), 700);
  const Json& result = json.at("result");
  EXPECT_EQ(result.at("summary").at("compared"), 1);
  EXPECT_DOUBLE_EQ(result.at("summary").at("minimum"), 1.25);
  const Json& good = result.at("shapes").at(0);
  EXPECT_EQ(good.at("match"), "default");
  EXPECT_DOUBLE_EQ(good.at("columns").at("tuned").at("measurement").at("median_us"), 10);
  EXPECT_TRUE(good.at("columns").at("cublas_lt_best").at("measurement").is_null());
  EXPECT_EQ(good.at("columns").at("cublas_lt_best").at("detail"), "no library");
  EXPECT_TRUE(good.at("error").is_null());
  const Json& bad = result.at("shapes").at(1);
  EXPECT_TRUE(bad.at("ratio").is_null());
  EXPECT_TRUE(bad.at("candidate").is_null());
  EXPECT_EQ(bad.at("error"), "out of memory");
}

}  // namespace
}  // namespace tilewise::bench
