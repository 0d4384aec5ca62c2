// The input, figures and output of compare: plain values, no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/compare/kinds.hpp"
#include "bench/compare/report.hpp"
#include "bench/compare/shapes.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::bench::bench_report_test {
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
    made.push_back(std::string(tilewise::to_string(layout_of(problem))) + " " + size_text(problem));
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
  EXPECT_EQ(alignment_of(read[0]), (Alignment{16, 16, 16}));
  EXPECT_EQ(alignment_of(read[1]), (Alignment{4, 4, 16}));
}

std::vector<Problem> products(const std::string& lines) {
  std::istringstream csv(lines);
  return read_products(csv);
}

TEST(Products, ARowIsEveryCombinationOfItsLists) {
  const auto read = products(
      "# a "
      "remark\nlayout,m,n,k,dtype,math,weight,source\n\"nn,nt\",\"1,33\",64,\"32,48\",bf16,,2,x\n"
      "tn,5,6,7,f32,tf32,,\n");
  EXPECT_THAT(texts(read),
              ElementsAre("nn 1x64x32", "nn 33x64x32", "nn 1x64x48", "nn 33x64x48", "nt 1x64x32",
                          "nt 33x64x32", "nt 1x64x48", "nt 33x64x48", "tn 5x6x7"));
  EXPECT_EQ(kind_name(read.front()), "bf16");
  EXPECT_EQ(kind_name(read.back()), "tf32");
  EXPECT_EQ(alignment_of(read.front()), (Alignment{16, 16, 16}));
  EXPECT_EQ(alignment_of(read.back()), (Alignment{4, 8, 8}));
}

TEST(Products, ABadRowIsNamedWithWhatIsAllowed) {
  const auto error = [](const std::string& lines) { return error_of([&] { products(lines); }); };
  EXPECT_THAT(error("layout,m,n,k,align\n"), testing::AllOf(HasSubstr("line 1"), HasSubstr("align"),
                                                            HasSubstr("layout, m, n, k")));
  EXPECT_THAT(error("m,n,k\n1..64,64,64\n"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("interval")));
  EXPECT_THAT(error("m,n,k\n64,64\n"), HasSubstr("2 fields"));
  EXPECT_THAT(error("m,n\n64,64\n"), HasSubstr("line 2"));
  EXPECT_THAT(error("m,n,k,dtype,math\n1,2,3,bf16,tf32\n"), HasSubstr("math"));
  EXPECT_THAT(error("m,n,k\n"), HasSubstr("no product"));
}

TEST(Products, TheListOfTheRepositoryIsRead) {
  const auto read =
      read_products_file(std::string(TILEWISE_SOURCE_DIR) + "/bench/shapes/untuned.csv");
  EXPECT_GE(read.size(), 70U);
  EXPECT_THAT(error_of([] { read_products_file("/nowhere.csv"); }), HasSubstr("/nowhere.csv"));
}

TEST(Shapes, ABadLineIsNamedWithWhatIsAllowed) {
  EXPECT_THAT(error_of([] { shapes("nn,1,2,3\nnn,1,2\n"); }), HasSubstr("line 3"));
  EXPECT_THAT(error_of([] { shapes("nn,0,2,3\n"); }), HasSubstr("'0'"));
  EXPECT_THAT(error_of([] { shapes("nn,1,2,3x\n"); }), HasSubstr("1 to 2^40"));
  EXPECT_THAT(error_of([] { shapes("xx,1,2,3\n"); }), HasSubstr("nn, nt, tn, tt"));
  EXPECT_THAT(error_of([] { shapes(""); }), HasSubstr("no shape"));
  EXPECT_THAT(error_of([] { shapes("nn,1,2,3,4\n"); }), HasSubstr("5 fields"));
  std::istringstream headless("nn,1,2,3\n");
  EXPECT_THAT(error_of([&] { read_shapes(headless); }), HasSubstr("layout,m,n,k"));
  EXPECT_THAT(error_of([] { read_shapes_file("/nowhere/shapes.csv"); }),
              HasSubstr("/nowhere/shapes.csv"));
}

TEST(Shapes, ThePublicGridHasTwentyNine) {
  EXPECT_EQ(read_shapes_file(TILEWISE_SOURCE_DIR "/bench/shapes/public.csv").size(), 29U);
}

TEST(Shapes, AFileMayHaveABatchColumn) {
  std::istringstream csv("# small ones\nlayout,m,n,k,batch\nnn,32,32,32,64\nnt,8,8,8,1\n");
  const auto read = read_shapes(csv);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(shape_text(read[0]), "nn 32x32x32*64");
  EXPECT_EQ(shape_text(read[1]), "nt 8x8x8");
  std::istringstream short_line("layout,m,n,k,batch\nnn,32,32,32\n");
  EXPECT_THAT(error_of([&] { read_shapes(short_line); }), HasSubstr("line 2"));
}

TEST(Shapes, TheBatchedGridKeepsToSixtyFourMebibytesAnOperand) {
  const auto read = read_shapes_file(TILEWISE_SOURCE_DIR "/bench/shapes/batched.csv");
  const auto has = [&](const std::string& shape) {
    return std::count_if(read.begin(), read.end(),
                         [&](const Problem& problem) { return shape_text(problem) == shape; });
  };
  EXPECT_EQ(has("nn 32x32x32*64"), 1);
  EXPECT_EQ(has("nn 8x8x8*65536"), 1);
  for (const Problem& problem : read) {
    EXPECT_GT(problem.batch, 1);
    EXPECT_LE(problem.m * problem.k * problem.batch * 4, 64 << 20) << shape_text(problem);
  }
}

TEST(Shapes, AListHasLayoutSizeAndBatch) {
  const auto read = parse_shapes("4096,nt:8x4096x4095,32*64");
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(shape_text(read[0]), "nn 4096x4096x4096");
  EXPECT_EQ(shape_text(read[1]), "nt 8x4096x4095");
  EXPECT_EQ(alignment_of(read[1]), (Alignment{4, 4, 16}));
  EXPECT_EQ(shape_text(read[2]), "nn 32x32x32*64");
  EXPECT_THAT(error_of([] { parse_shapes("64,xx:64"); }), HasSubstr("'xx:64'"));
  EXPECT_THAT(error_of([] { parse_shapes("nt"); }), HasSubstr("'nt'"));
  EXPECT_THAT(error_of([] { parse_shapes("8*0"); }), HasSubstr("'8*0'"));
  EXPECT_THAT(error_of([] { parse_shapes(""); }), HasSubstr("no shape"));
}

TEST(Shapes, OnlyTakesLayoutsSizesAndBoth) {
  const auto all = shapes("nn,64,64,64\nnt,64,64,64\nnt,8,64,64\ntn,8,64,64\n");
  EXPECT_EQ(only(all, "").size(), 4U);
  EXPECT_THAT(texts(only(all, "nt")), ElementsAre("nt 64x64x64", "nt 8x64x64"));
  EXPECT_THAT(texts(only(all, "64")), ElementsAre("nn 64x64x64", "nt 64x64x64"));
  EXPECT_THAT(texts(only(all, "tn:8x64x64,nn:64")), ElementsAre("nn 64x64x64", "tn 8x64x64"));
  EXPECT_THAT(error_of([&] { only(all, "nt,65"); }), HasSubstr("'65' names none"));
  EXPECT_THAT(error_of([&] { only(all, "nn:8x64x64"); }), HasSubstr("names none"));
  EXPECT_THAT(error_of([&] { only(all, "nt,,64"); }), HasSubstr("'' names none"));
}

TEST(Shapes, OnlyTakesBatches) {
  const auto all = parse_shapes("32*64,32*512,nt:32*64,64*64");
  EXPECT_EQ(only(all, "32").size(), 3U);
  EXPECT_EQ(only(all, "32*64").size(), 2U);
  EXPECT_EQ(only(all, "nn:32*64").size(), 1U);
  EXPECT_THAT(error_of([&] { only(all, "64*512"); }), HasSubstr("'64*512' names none"));
}

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  for (const ProductKind* kind : parse_kinds(list)) names.push_back(kind_name(*kind));
  return names;
}

TEST(Kinds, AreNamedByTypeOrModeAndByAResultThatIsNotTheDefault) {
  EXPECT_THAT(names_of("tf32,bf16:f32,i8,e4m3:f16,tf32"),
              ElementsAre("tf32", "bf16:f32", "i8", "e4m3:f16"));
  EXPECT_THAT(names_of("all"),
              ElementsAre("f32", "tf32", "f32x3", "f32-emulated", "f64", "f64-emulated", "f16",
                          "bf16", "i8", "e4m3", "e5m2", "e4m3-fast", "e5m2-fast"));
  EXPECT_THAT(names_of("e4m3-fast:bf16"), ElementsAre("e4m3-fast:bf16"));
  EXPECT_THAT(error_of([] { parse_kinds("f32,f12"); }), HasSubstr("'f12' is no kind"));
  EXPECT_THAT(error_of([] { parse_kinds("f12"); }), HasSubstr("bf16:f32"));
  EXPECT_THAT(error_of([] { parse_kinds(""); }), HasSubstr("no kind"));
}

TEST(Kinds, EveryKindHasANameOfItsOwnThatFindsIt) {
  for (const ProductKind& kind : product_kinds()) {
    ASSERT_EQ(parse_kinds(kind_name(kind)).size(), 1U);
    EXPECT_EQ(parse_kinds(kind_name(kind)).front(), &kind) << kind_name(kind);
  }
}

TEST(Kinds, ProblemsGetTypesAndTheAlignmentOfTheirRows) {
  const auto made = of_kind(shapes("nn,64,12,24\n"), *parse_kinds("bf16:f32").front());
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(kind_name(made[0]), "bf16:f32");
  EXPECT_EQ(made[0].accumulator, DType::f32);
  EXPECT_EQ(alignment_of(made[0]), (Alignment{16, 8, 16}));  // rows of 48, 24 and 48 bytes
  EXPECT_EQ(kind_name(of_kind(shapes("nn,1,2,3\n"), *parse_kinds("f32x3").front())[0]), "f32x3");
}

Row row(std::int64_t size, double tuned, double cublas, double pedantic, double lt) {
  Row made;
  made.problem.m = made.problem.n = made.problem.k = size;
  made.resolution.kind = MatchKind::exact;
  made.resolution.candidate.kernel_template = "simt";
  const double times[] = {tuned, cublas, pedantic, lt};
  for (const Player player : kPlayers) {
    Column& column = made.columns.emplace_back();
    column.player = player;
    const double us = times[static_cast<int>(player)];
    if (us > 0) column.measurement.emplace().median_us = us;
  }
  return made;
}

std::vector<Row> of_rows(const std::string& kind, std::vector<Row> rows) {
  for (Row& one : rows) one.problem = of_kind({one.problem}, *parse_kinds(kind).front()).front();
  return rows;
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

const ProductKind& kind_of(const std::string& name) { return *parse_kinds(name).front(); }

TEST(Floor, RatesOfTheH200AreOfTheKind) {
  DeviceInfo h200 = nominal_device({9, 0, true});
  h200.name = "NVIDIA H200";
  const auto rate = [&](const std::string& name) {
    return rates_for(h200, kind_of(name), 0, 0).flops * 1e-12;
  };
  EXPECT_DOUBLE_EQ(rate("f32"), 64.6);
  EXPECT_DOUBLE_EQ(rate("tf32"), 420);
  EXPECT_DOUBLE_EQ(rate("f32x3"), 140);
  EXPECT_DOUBLE_EQ(rate("f64"), 60);
  EXPECT_DOUBLE_EQ(rate("f16"), 870);
  EXPECT_DOUBLE_EQ(rate("bf16:f32"), 870);
  EXPECT_DOUBLE_EQ(rate("i8"), 1520);
  EXPECT_DOUBLE_EQ(rate("e5m2"), 1740);
}

TEST(Floor, RatesAreThoseGivenElseOfTheH200ElseOfTheDevice) {
  const ProductKind& f32 = kind_of("f32");
  DeviceInfo h200 = nominal_device({9, 0, true});
  h200.name = "NVIDIA H200";
  EXPECT_DOUBLE_EQ(rates_for(h200, f32, 0, 0).flops, 64.6e12);
  EXPECT_DOUBLE_EQ(rates_for(h200, f32, 0, 0).bytes, 4.29e12);
  EXPECT_DOUBLE_EQ(rates_for(h200, f32, 50e12, 3e12).bytes, 3e12);
  EXPECT_EQ(rates_for(h200, f32, 50e12, 3e12).source, "given");
  EXPECT_THAT(rates_for(h200, f32, 50e12, 0).source, HasSubstr("one of them given"));
  DeviceInfo other = nominal_device({8, 0, false});
  other.multiprocessors = 100, other.clock_khz = 1'000'000;
  EXPECT_DOUBLE_EQ(rates_for(other, f32, 0, 0).flops, peak_flops(other));
  EXPECT_EQ(rates_for(other, kind_of("bf16"), 0, 0).flops, 0) << "no device states that";
}

TEST(Summary, CountsMeansAndNamesTheWorst) {
  std::vector<Row> rows{row(1024, 10, 20, 30, 30),  row(2048, 10, 9.8, 30, 30),
                        row(3072, 10, 9.6, 30, 30), row(4096, 10, 5, 30, 30),
                        row(5120, 10, 0, 0, 0),     row(6144, 0, 0, 0, 0)};
  rows[1].resolution.kind = MatchKind::predicted;
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
  // The floor of each is 2 us.
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
  made.device.name = "GPU";
  made.driver = "1";
  made.toolkit = "NVRTC 13.0";
  Section& section = made.sections.emplace_back();
  section.kind = &kind_of("f32");
  section.rates = {1e12, 1e12, "given"};
  section.rows = {row(1024, 10, 12.5, 13, 0), row(2048, 0, 0, 0, 0)};
  section.rows[0].resolution.kind = MatchKind::default_;
  section.rows[0].columns[3].detail = "no library";
  section.rows[1].resolution.candidate = {};
  section.rows[1].error = "out of memory";
  return made;
}

TEST(Report, TheTableShowsTimesMarksDefaultsAndSaysWhatIsMissing) {
  const std::string text = table_text(report());
  EXPECT_THAT(text, HasSubstr("nn 1024x1024x1024  default"));
  EXPECT_THAT(text, HasSubstr("1.25x"));
  EXPECT_THAT(text, HasSubstr("nn 1024x1024x1024: no cublas_lt_best: no library"));
  EXPECT_THAT(text, HasSubstr("nn 2048x2048x2048: error: out of memory"));
  EXPECT_THAT(text, HasSubstr("1 served without a winner of their own, 1 failed"));
  std::vector<std::size_t> ends;  // columns are aligned
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("shape", 0) == 0 || line.rfind("nn ", 0) == 0)
      if (line.find(": ") == std::string::npos) ends.push_back(line.size());
  EXPECT_THAT(ends, ElementsAre(ends[0], ends[0], ends[0]));
}

TEST(Report, EachKindHasItsTableAndItsSummary) {
  Report two = report();
  Section& integers = two.sections.emplace_back();
  integers.kind = &kind_of("i8");
  integers.rates = {1520e12, 4e12, "given"};
  integers.rows = of_rows("i8", {row(64, 4, 8, 0, 0), row(128, 4, 8, 0, 0)});
  integers.rows[0].columns[1].detail = "beyond the bound, timed all the same: C[0][0]";
  for (Row& one : integers.rows) one.columns[2].detail = "f32 only";
  two.sections.emplace_back().kind = &kind_of("f32x3");
  const std::string text = table_text(two);
  EXPECT_THAT(text, HasSubstr("i8: C of i32, sums in i32"));
  EXPECT_THAT(text, HasSubstr("1520.0 TOP/s"));
  EXPECT_THAT(text, HasSubstr("2 shapes: geometric mean 2.000x"));
  EXPECT_THAT(text, HasSubstr("cublas: beyond the bound")) << "said though it was timed";
  EXPECT_THAT(text, HasSubstr("nn 64x64x64: no cublas_pedantic: f32 only"));
  EXPECT_THAT(text, Not(HasSubstr("nn 128x128x128: no cublas_pedantic"))) << "said once";
  EXPECT_THAT(text, HasSubstr("f32x3: C of f32, sums in f32; the cuBLAS columns are its strict"));
}

TEST(Report, ErrorsOfSplitF32AreHeldAgainstStrictF32s) {
  Report split;
  Section& section = split.sections.emplace_back();
  section.kind = &kind_of("f32x3");
  section.rows = of_rows("f32x3", {row(64, 4, 8, 0, 0), row(128, 4, 8, 0, 0)});
  for (Row& one : section.rows) one.strict_f32_error = 2e-7;
  section.rows[0].columns[0].normwise_error = 1e-7;
  section.rows[1].columns[0].normwise_error = 3e-7;
  EXPECT_DOUBLE_EQ(error_over_strict(section.rows[0]).value(), 0.5);
  EXPECT_FALSE(error_over_strict(row(64, 4, 8, 0, 0)).has_value());
  EXPECT_THAT(table_text(split), HasSubstr("strict f32 on the same data: 1.50x at most"));
  const Json json = Json::parse(json_text(split));
  EXPECT_DOUBLE_EQ(json.at("kinds").at(0).at("shapes").at(1).at("error_over_strict"), 1.5);
}

TEST(Report, TheJsonHasKindsColumnsAndNulls) {
  const Json result = Json::parse(json_text(report()));
  EXPECT_EQ(result.at("device").at("name"), "GPU");
  EXPECT_EQ(result.at("toolkit"), "NVRTC 13.0");
  const Json& kind = result.at("kinds").at(0);
  EXPECT_EQ(kind.at("kind"), "f32");
  EXPECT_EQ(kind.at("summary").at("compared"), 1);
  EXPECT_DOUBLE_EQ(kind.at("summary").at("minimum"), 1.25);
  const Json& good = kind.at("shapes").at(0);
  EXPECT_EQ(good.at("match"), "default");
  EXPECT_EQ(good.at("problem").at("dtype"), "f32");
  EXPECT_DOUBLE_EQ(good.at("columns").at("tuned").at("measurement").at("median_us"), 10);
  EXPECT_TRUE(good.at("columns").at("cublas_lt_best").at("measurement").is_null());
  EXPECT_EQ(good.at("columns").at("cublas_lt_best").at("detail"), "no library");
  EXPECT_TRUE(good.at("error").is_null());
  const Json& bad = kind.at("shapes").at(1);
  EXPECT_TRUE(bad.at("ratio").is_null());
  EXPECT_TRUE(bad.at("candidate").is_null());
  EXPECT_EQ(bad.at("error"), "out of memory");
}

TEST(Report, ProgressNamesKindAndShape) {
  Row batched = of_rows("bf16", {row(32, 4, 8, 0, 0)}).front();
  batched.problem.batch = 64;
  EXPECT_EQ(progress_text(batched, 3, 20), "bf16 nn 32x32x32*64  4.00 us, 2.00x cuBLAS (3 of 20)");
}

}  // namespace
}  // namespace tilewise::bench::bench_report_test
