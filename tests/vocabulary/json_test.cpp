#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "tilewise/error.hpp"
#include "tilewise/match.hpp"
#include "vocabulary/record.hpp"

namespace tilewise::json_test {
namespace {

using testing::HasSubstr;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

Record full_record() {
  Record r;
  r.id = std::int64_t{1} << 53;
  set_layout(r.problem, Layout::tn);
  r.problem.m = 1000;
  r.problem.n = std::int64_t{1} << 40;
  r.problem.batch = 3;
  set_alignment(r.problem, {16, 1, 4});
  r.candidate = {"simt", {{"TILE_M", 128}, {"PREFETCH", -1}}};
  r.gpu = "NVIDIA H200|9.0|132";
  r.source_hash = "0123abcd";
  r.launch_revision = "simt.1 plan.1";
  r.code_hash = "99aa06d3014798d8";
  r.origin = Origin::imported;
  r.outcome = Outcome::wrong_result;
  r.detail = "C[17][4] = 3 instead of 5\n\"exact\" \xc3\xa9";
  r.measurement = Measurement{
      0.1 + 0.2, 1e-300, 20,   7,  {1.0 / 3, 5e-324, 1.7976931348623157e308}, false, "graph", 1980,
      699.5,     3.25,   12.5, 700};
  r.usage = {255, 16, 4096, 24};
  r.compile_ms = 312.0625;
  r.error_ratio = 0.999999999999999889;
  r.normwise_error = 1.1e-7;
  r.predicted_us = 12.5;
  r.environment = {"580.159", "NVRTC 13.0", "node7", "2026-01-31T12:00:00Z"};
  return r;
}

Plan full_plan() {
  Plan plan;
  LaunchStep pack;
  pack.packs = {{StepRole::pack_a, true, true, true, 7, std::int64_t{1} << 33, 9, 64, 4096},
                {StepRole::pack_b, false, false, 1, 2, 3, 4, 5}};
  pack.role = StepRole::pack_both;
  pack.kernel = {"steps/pack.cu", "pack", {{"ROWS", -5}, {"TILE", std::int64_t{1} << 40}}};
  pack.grid = {4294967295U, 65535, 2};
  pack.block = {32, 8, 1};
  pack.arguments = {{Argument::Kind::b}, {Argument::Kind::workspace, 1 << 20}};
  LaunchStep multiply;
  multiply.kernel = {"simt.cu", "simt", {}};
  multiply.cluster = {2, 1, 1};
  multiply.shared_bytes = 232448;
  multiply.programmatic = true;
  for (int kind = 0; kind <= static_cast<int>(Argument::Kind::tensor_map); ++kind) {
    multiply.arguments.push_back({static_cast<Argument::Kind>(kind), kind * 3});
  }
  multiply.work = {1e11, 2e11, 3e9, 4e8, 5e9, 6e8};
  multiply.schedule = {128, 4, 2, 0.75, 168, 2};
  plan.steps = {pack, multiply};
  plan.workspace_bytes = (std::int64_t{1} << 40) + 1;
  plan.tensor_maps = {{{Argument::Kind::workspace, 256},
                       {Argument::Kind::lda},
                       DType::f32,
                       {4096, std::int64_t{1} << 35, 3},
                       {32, 128, 1},
                       {Argument::Kind::integer64, 1 << 24},
                       128,
                       256,
                       4,
                       3}};
  plan.work = {1e12, 1.25e12, 3.5e9, 2e8, 7e9, 5e8};
  return plan;
}

TEST(Json, RecordRoundTripsToTheLastBit) {
  const Record record = full_record();
  EXPECT_EQ(record_from_json(to_json(record)), record);
  Record bare;
  bare.gpu = "x";
  EXPECT_EQ(record_from_json(to_json(bare)), bare);
}

TEST(Json, EveryOtherTypeRoundTrips) {
  const Record r = full_record();
  EXPECT_EQ(problem_from_json(to_json(r.problem)), r.problem);
  EXPECT_EQ(measurement_from_json(to_json(*r.measurement)), *r.measurement);
  const Baseline baseline{r.problem, r.gpu,          "cuBLAS",     "13.1.0",
                          "lt_best", *r.measurement, r.environment};
  EXPECT_EQ(baseline_from_json(to_json(baseline)), baseline);
  for (const Target& target : known_targets()) {
    DeviceInfo info = nominal_device(target);
    info.uuid = "GPU-1";
    EXPECT_EQ(device_info_from_json(to_json(info)), info);
  }
  EXPECT_EQ(plan_from_json(to_json(full_plan())), full_plan());
  EXPECT_EQ(plan_from_json(to_json(Plan{})), Plan{});
}

TEST(Json, NanAndInfinitySurvive) {
  Record r = full_record();
  r.error_ratio = std::numeric_limits<double>::infinity();
  r.normwise_error = std::numeric_limits<double>::quiet_NaN();
  r.measurement->samples_us = {-std::numeric_limits<double>::infinity()};
  const Record back = record_from_json(to_json(r));
  EXPECT_EQ(back.error_ratio, r.error_ratio);
  EXPECT_TRUE(std::isnan(back.normwise_error));
  EXPECT_EQ(back.measurement->samples_us, r.measurement->samples_us);
}

TEST(Json, WordsThatAreNoUtf8AreReplacedNotRefused) {
  Record r = full_record();
  r.detail = "driver said \xff\xfe";
  EXPECT_THAT(record_from_json(to_json(r)).detail, HasSubstr("driver said"));
}

TEST(Json, KeysAreTheDocumentedOnes) {
  const Record r = full_record();
  EXPECT_EQ(to_json(r.problem),
            R"({"layout":"tn","m":1000,"n":1099511627776,"k":0,"dtype":"f32","math":"strict",)"
            R"("batch":3,"align":[16,1,4]})");
  EXPECT_EQ(to_json(r.candidate),
            R"({"kernel_template":"simt","configuration":{"PREFETCH":-1,"TILE_M":128}})");
  const auto json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json["problem"], nlohmann::json::parse(to_json(r.problem)));
  EXPECT_EQ(json["candidate"]["configuration"]["TILE_M"], 128);
  EXPECT_EQ(json["outcome"], "wrong_result");
  EXPECT_EQ(json["origin"], "imported");
  EXPECT_EQ(json["code_hash"], "99aa06d3014798d8");
  EXPECT_EQ(nlohmann::json::parse(to_json(nominal_device({9, 0, true})))["target"], "sm_90a");
}

TEST(Json, UnknownKeysAndFeaturesAreIgnored) {
  auto json = nlohmann::json::parse(to_json(full_record()));
  json["colour"] = "blue";
  json["problem"]["colour"] = {1, 2};
  json["measurement"]["colour"] = nullptr;
  EXPECT_EQ(record_from_json(json.dump()), full_record());
  const DeviceInfo info = nominal_device({9, 0});
  auto device = nlohmann::json::parse(to_json(info));
  device["features"].push_back("telepathy");
  EXPECT_EQ(device_info_from_json(device.dump()), info);
}

TEST(Json, AbsentKeysLeaveDefaults) {
  const Problem p = problem_from_json(R"({"layout":"nt","m":1,"n":2,"k":0})");
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(alignment_of(p), (Alignment{16, 16, 16}));
  EXPECT_EQ(measurement_from_json(R"({"median_us":2.5})").median_us, 2.5);
  auto old = nlohmann::json::parse(to_json(full_record()));  // a version without origins
  old.erase("origin");
  old.erase("code_hash");
  EXPECT_EQ(record_from_json(old.dump()).origin, Origin::measured);
  EXPECT_EQ(record_from_json(old.dump()).code_hash, "");
}

TEST(Json, AnOriginIsOneOfThree) {
  auto json = nlohmann::json::parse(to_json(full_record()));
  json["origin"] = "found";
  EXPECT_THAT(refusal([&] { record_from_json(json.dump()); }),
              testing::AllOf(HasSubstr("origin"), HasSubstr("measured, imported, shipped"),
                             HasSubstr("found")));
}

TEST(Json, FourTypesMayBeGiven) {
  const auto with = [](const std::string& dtype) {
    return problem_from_json(R"({"layout":"nn","m":1,"n":1,"k":1,"dtype":")" + dtype + "\"}");
  };
  EXPECT_EQ(with("f32,f32,f32,f32"), with("f32"));
  EXPECT_THAT(refusal([&] { with("f32,f32"); }), HasSubstr("four"));
  EXPECT_THAT(refusal([&] { with("f33"); }), HasSubstr("f33"));
}

/// Replaces one value of a good record and expects a refusal that names its place.
void expect_refused(const std::string& pointer, const nlohmann::json& value,
                    const std::string& words) {
  auto json = nlohmann::json::parse(to_json(full_record()));
  json[nlohmann::json::json_pointer(pointer)] = value;
  EXPECT_THAT(refusal([&] { record_from_json(json.dump()); }), HasSubstr(words)) << pointer;
}

TEST(Json, BadInputIsRefusedWithItsPath) {
  expect_refused("/problem/m", "12", "record.problem.m");
  expect_refused("/problem/m", 1.5, "record.problem.m");
  expect_refused("/problem/n", -1, "0 .. 2^40");
  expect_refused("/problem/k", (std::int64_t{1} << 40) + 1, "2^40");
  expect_refused("/problem/batch", 0, "1 .. 2^40");
  expect_refused("/problem/layout", "xy", "nn, nt, tn, tt");
  expect_refused("/problem/align", {16, 16}, "three powers of two");
  expect_refused("/problem/align", {16, 3, 16}, "three powers of two");
  expect_refused("/problem/align", {16, 0, 16}, "three powers of two");
  expect_refused("/problem/align", {16, 32, 16}, "three powers of two");
  expect_refused("/candidate/configuration/TILE_M", std::int64_t{1} << 31, "TILE_M");
  expect_refused("/measurement", 7, "record.measurement must be an object");
  expect_refused("/measurement/samples_us/1", "fast", "record.measurement.samples_us[1]");
  expect_refused("/measurement/cold", 1, "true or false");
  expect_refused("/outcome", "fine", "wrong_result");
  expect_refused("/usage/registers", std::int64_t{1} << 40, "registers");
}

TEST(Json, MissingOrBrokenTextIsRefused) {
  EXPECT_THAT(refusal([] { problem_from_json("{"); }), HasSubstr("problem"));
  EXPECT_THAT(refusal([] { problem_from_json(""); }), HasSubstr("problem"));
  EXPECT_THAT(refusal([] { problem_from_json("[]"); }), HasSubstr("an object"));
  EXPECT_THAT(refusal([] { problem_from_json(R"({"layout":"nn","m":1,"n":1})"); }),
              HasSubstr("\"k\""));
  EXPECT_THAT(refusal([] { device_info_from_json(R"({"name":"x","target":"seven"})"); }),
              HasSubstr("seven"));
  EXPECT_THAT(refusal([] {
                plan_from_json(
                    R"({"steps":[{"role":"multiply","kernel":{"source":"s","entry":"e"},
                     "grid":[1,1],"block":[1,1,1],"arguments":[]}]})");
              }),
              HasSubstr("plan.steps[0].grid"));
}

// layout_of compared with a C compiler ------------------------------------------------------------

struct alignas(64) TensorMap {
  std::byte bytes[128];
};

struct Mixed {
  const float* a;
  std::int32_t flag;
  std::int64_t lda;
  float alpha;
  TensorMap map;
  std::int32_t count;
  float beta;
  const float* beta_device;
  std::int32_t last;
};

TEST(LayoutOf, AgreesWithTheCompiler) {
  using Kind = Argument::Kind;
  const ArgumentLayout layout = layout_of({{Kind::a},
                                           {Kind::integer32},
                                           {Kind::lda},
                                           {Kind::alpha},
                                           {Kind::tensor_map},
                                           {Kind::integer32},
                                           {Kind::beta},
                                           {Kind::beta_device},
                                           {Kind::integer32}},
                                          DType::f32);
  EXPECT_THAT(layout.offsets,
              testing::ElementsAre(offsetof(Mixed, a), offsetof(Mixed, flag), offsetof(Mixed, lda),
                                   offsetof(Mixed, alpha), offsetof(Mixed, map),
                                   offsetof(Mixed, count), offsetof(Mixed, beta),
                                   offsetof(Mixed, beta_device), offsetof(Mixed, last)));
  EXPECT_EQ(layout.bytes, sizeof(Mixed));
}

TEST(LayoutOf, SmallStructsKeepTheirOwnAlignment) {
  struct Small {
    float alpha;
    std::int32_t x;
    float beta;
  };
  using Kind = Argument::Kind;
  EXPECT_EQ(layout_of({{Kind::alpha}, {Kind::integer32}, {Kind::beta}}, DType::f32).bytes,
            sizeof(Small));
  EXPECT_EQ(layout_of({}, DType::f32).bytes, 0U);
  for (int kind = 0; kind <= static_cast<int>(Kind::tensor_map); ++kind) {
    const auto k = static_cast<Kind>(kind);
    const std::uint32_t expected =
        k == Kind::tensor_map                                                                ? 128
        : k == Kind::integer32 || k == Kind::blocks_a || k == Kind::alpha || k == Kind::beta ? 4
                                                                                             : 8;
    EXPECT_EQ(layout_of({{k}}, DType::f32).bytes, expected) << to_string(k);
  }
}

TEST(PlanText, NamesKernelsRolesAndMatches) {
  EXPECT_EQ(to_string(KernelSpec{"simt.cu", "simt", {{"A_TRANSPOSED", 0}, {"TILE_K", 8}}}),
            "simt.cu:simt A_TRANSPOSED=0 TILE_K=8");
  EXPECT_EQ(to_string(StepRole::pack_a), "pack_a");
  EXPECT_EQ(to_string(StepRole::pack_both), "pack_both");
  EXPECT_EQ(to_string(StepRole::reduce), "reduce");
  EXPECT_EQ(to_string(Argument::Kind::integer32), "integer32");
  EXPECT_EQ(to_string(Argument::Kind::tensor_map), "tensor_map");
  EXPECT_EQ(to_string(MatchKind::exact), "exact");
  EXPECT_EQ(to_string(MatchKind::default_), "default");
}

}  // namespace
}  // namespace tilewise::json_test
