// Recorded spaces: the files that are read, and the space that they define.
#include "tuner/search/recorded_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "db/database.hpp"
#include "tilewise/error.hpp"

namespace tilewise::recorded_space_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

RecordedSpace one_space(const std::string& text) {
  std::vector<RecordedSpace> spaces = read_recorded(text, "file");
  EXPECT_EQ(spaces.size(), 1u);
  return spaces.at(0);
}

std::string refusal_of(const std::string& text) {
  try {
    read_recorded(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "it was read";
  return "";
}

std::optional<double> time_of(const RecordedSpace& space, const Configuration& configuration) {
  return space.times.at({space.templates.at(0).name, configuration});
}

const char* const kCsv =
    "A,B,median_ms,compile_ms\n"
    "1,0,2.5,9\n"
    "2,0,,9\n"
    "2,1,0.5,9\n";

TEST(RecordedSpace, OfCsvHasFailuresWhereTheTimeIsEmpty) {
  const RecordedSpace space = one_space(kCsv);
  EXPECT_EQ(space.times.size(), 3u);
  EXPECT_EQ(space.failed(), 1);
  EXPECT_DOUBLE_EQ(space.best(), 500);
  EXPECT_EQ(time_of(space, {{"A", 1}, {"B", 0}}), 2500);
  EXPECT_EQ(time_of(space, {{"A", 2}, {"B", 0}}), std::nullopt);
}

TEST(RecordedSpace, OfCsvHasQuotedFieldsAndBlankLines) {
  const RecordedSpace space = one_space(
      "\xEF\xBB\xBF\"A\",\"B, of "
      "\"\"C\"\"\",median_ms\r\n\r\n\"2,7\",1,1.5\r\n\"2\r\n7\",1,2.5\r\n\r\n");
  EXPECT_EQ(space.times.size(), 2u);
  EXPECT_EQ(space.failed(), 0);
  EXPECT_DOUBLE_EQ(space.best(), 1500);
  EXPECT_EQ(space.templates[0].parameters[1].name, "B, of \"C\"");
  EXPECT_THAT(space.templates[0].parameters[0].labels, ElementsAre("2\r\n7", "2,7"));
}

/// Numbers that no measurement gives: Kernel Tuner's 1e20, and numbers that Python writes to JSON.
TEST(RecordedSpace, MarksOfFailureAreNoTimes) {
  for (const std::string mark :
       {"1e20", "1e+20", "1e300", "NaN", "Infinity", "-Infinity", "0", "-1", "null", "\"1e20\""}) {
    const std::string csv_mark = mark == "null" || mark.front() == '"' ? "" : mark;
    const std::string of_each[] = {
        "A,time_us\n1,5000\n2," + csv_mark + "\n",
        R"({"tune_params_keys": ["A"], "cache": {"1": {"A": 1, "time": 5.0}, "2": {"A": 2, "time": )" +
            mark + "}}}",
        R"({"results": [{"configuration": {"A": 1}, "times": {"runtimes": [4.0, 6.0]}},
            {"configuration": {"A": 2}, "times": {"runtimes": [1.0, )" +
            mark + "]}}]}",
        R"({"results": [{"configuration": {"A": 1}, "times": {"runtimes": [5.0]}},
            {"configuration": {"A": 2}, "objectives": ["time"], "times": {"runtimes": [1.0]},
             "measurements": [{"name": "time", "unit": "ms", "value": )" +
            mark + "}]}]}"};
    for (const std::string& text : of_each) {
      const RecordedSpace space = one_space(text);
      EXPECT_EQ(space.failed(), 1) << text;
      EXPECT_DOUBLE_EQ(space.best(), 5000) << text;
    }
  }
}

TEST(RecordedSpace, HasTheRecordedConfigurationsAlone) {
  const RecordedSpace recorded = one_space(kCsv);
  const SearchSpace space = recorded.space();
  EXPECT_EQ(space.count(100), 3);
  std::mt19937_64 generator(1);
  std::set<Candidate> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(*space.random(generator));
  EXPECT_EQ(drawn.size(), 3u);
  for (const Candidate& candidate : drawn) EXPECT_TRUE(recorded.times.contains(candidate));
  EXPECT_FALSE(space.contains({"recorded", {{"A", 1}, {"B", 1}}}));
  EXPECT_THAT(space.neighbours({"recorded", {{"A", 2}, {"B", 1}}}),
              testing::Contains(Candidate{"recorded", {{"A", 2}, {"B", 0}}}));
  EXPECT_TRUE(space.defaults().empty());
}

const char* const kCache = R"({
"device_name": "made up", "kernel_name": "vector_add", "problem_size": 1000,
"tune_params_keys": ["block_size_x", "unroll", "kind"],
"tune_params": {"block_size_x": [64, 32], "unroll": [true, false], "kind": ["tall", "flat"]},
"objective": "time",
"cache": {
"64,True,tall": {"block_size_x": 64, "unroll": true, "kind": "tall", "time": 0.25, "times": [0.25]},
"32,True,tall": {"block_size_x": 32, "unroll": true, "kind": "tall", "time": "RuntimeFailedConfig"},
"64,True,flat": {"block_size_x": 64, "unroll": true, "kind": "flat", "__error__": "CompilationFailedConfig"},
"32,False,flat": {"block_size_x": 32, "unroll": false, "kind": "flat", "time": 0.5})";

TEST(RecordedSpace, OfAnUnfinishedCacheOfKernelTuner) {
  for (const std::string end : {"", ",", "}\n}"}) {
    const RecordedSpace space = one_space(kCache + end);
    ASSERT_EQ(space.templates.size(), 1u);
    const KernelTemplate& kernel = space.templates[0];
    EXPECT_EQ(kernel.name, "vector_add");
    EXPECT_THAT(kernel.parameters[2].labels, ElementsAre("flat", "tall"));
    EXPECT_EQ(space.failed(), 2);
    EXPECT_EQ(time_of(space, {{"block_size_x", 64}, {"unroll", 1}, {"kind", 1}}), 250);
  }
}

TEST(RecordedSpace, OfT4TakesTheObjectiveElseTheMeanRuntime) {
  const RecordedSpace space = one_space(R"({"schema_version": "1.0.0", "results": [
    {"configuration": {"A": 1}, "invalidity": "correct", "times": {"runtimes": [1.0, 3.0]}},
    {"configuration": {"A": 2}, "invalidity": "compile", "times": {"runtimes": []}},
    {"configuration": {"A": 3}, "invalidity": "correct", "times": {"runtimes": [5.0]},
     "objectives": ["t"], "measurements": [{"name": "x", "value": 1, "unit": "s"},
                                           {"name": "t", "value": 7, "unit": "us"}]}]})");
  EXPECT_EQ(time_of(space, {{"A", 1}}), 2000);
  EXPECT_EQ(time_of(space, {{"A", 2}}), std::nullopt);
  EXPECT_EQ(time_of(space, {{"A", 3}}), 7);
}

/// A T4 file of two configurations, the first with 2 ms. Each text has the objectives, measurements
/// and times of one result.
std::string t4_of(const std::string& first, const std::string& second,
                  const std::string& metadata = "{}") {
  return R"({"metadata": )" + metadata + R"(, "results": [{"configuration": {"A": 1}, )" + first +
         R"(}, {"configuration": {"A": 2}, )" + second + "}]}";
}

TEST(RecordedSpace, ObjectivesOfT4HaveUnits) {
  const std::pair<const char*, double> units[] = {
      {"s", 2e6},       {"seconds", 2e6},    {"ms", 2e3},  {"Milliseconds", 2e3}, {"us", 2},
      {"\xC2\xB5s", 2}, {"microseconds", 2}, {"ns", 2e-3}, {"nanoseconds", 2e-3}};
  const auto of = [](const std::string& unit) {
    return R"("objectives": ["t"], "measurements": [{"name": "t", "value": 2, "unit": ")" + unit +
           R"("}], "times": {"runtimes": [9]})";
  };
  for (const auto& [unit, us] : units)
    EXPECT_DOUBLE_EQ(one_space(t4_of(of(unit), of(unit))).best(), us) << unit;
  const std::string runtimes = R"("times": {"runtimes": [2]})";
  EXPECT_DOUBLE_EQ(one_space(t4_of(runtimes, runtimes, R"({"timeunit": "seconds"})")).best(), 2e6);
  const std::string named =
      R"("objectives": ["time"], "measurements": [{"name": "time", "value": 2}])";
  EXPECT_DOUBLE_EQ(one_space(t4_of(named, named, R"({"timeunit": "us"})")).best(), 2);
  EXPECT_THAT(refusal_of(t4_of(runtimes, runtimes, R"({"timeunit": "fortnights"})")),
              AllOf(HasSubstr("'fortnights'"), HasSubstr("ms")));
}

/// A larger rate is better, so a rate is not a time, whatever its unit and place.
TEST(RecordedSpace, ObjectivesOfT4ThatAreNoTimesGiveWayToTimes) {
  const auto of = [](const std::string& objectives, double rate, const std::string& unit,
                     const std::string& times) {
    return R"("objectives": )" + objectives +
           R"(, "measurements": [{"name": "GFLOP/s", "value": )" + std::to_string(rate) +
           R"(, "unit": ")" + unit + R"("}, {"name": "time", "unit": "ms", "value": )" +
           std::to_string(100 / rate) + R"(}], "times": )" + times;
  };
  for (const char* unit : {"GFLOP/s", "", "J", "GFLOPS/W"}) {
    const RecordedSpace space =
        one_space(t4_of(of(R"(["GFLOP/s"])", 50, unit, R"({"runtimes": [2]})"),
                        of(R"([{"name": "GFLOP/s", "direction": "maximize"}])", 100, unit,
                           R"({"runtimes": [1]})")));
    EXPECT_EQ(time_of(space, {{"A", 1}}), 2000) << unit;
    EXPECT_EQ(time_of(space, {{"A", 2}}), 1000) << unit;
    EXPECT_EQ(time_of(one_space(t4_of(of(R"(["GFLOP/s", "time"])", 50, unit, "{}"),
                                      of(R"(["GFLOP/s", "time"])", 100, unit, "{}"))),
                      {{"A", 2}}),
              1000)
        << unit << ": the first objective that is a time";
    EXPECT_THAT(refusal_of(t4_of(of(R"(["GFLOP/s"])", 50, unit, "{}"),
                                 of(R"(["GFLOP/s"])", 100, unit, R"({"runtimes": []})"))),
                AllOf(HasSubstr("'GFLOP/s'"), HasSubstr("no time"), HasSubstr("runtimes")))
        << unit;
  }
}

TEST(RecordedSpace, OfAnExportHasASpaceForEachProblemAndGpu) {
  Database database = Database::in_memory();
  const auto add = [&](int size, const std::string& kernel, int x, std::optional<double> us) {
    Record record;
    record.problem.m = record.problem.n = record.problem.k = size;
    record.gpu = "made-up GPU|9.0|132";
    record.candidate = {kernel, {{"X", x}}};
    record.source_hash = record.launch_revision = "1";
    record.outcome = us ? Outcome::ok : Outcome::wrong_result;
    if (us) {
      record.measurement.emplace();
      record.measurement->median_us = *us;
      record.measurement->samples = 1;
    }
    database.add(record);
  };
  add(64, "one", 1, 10);
  add(64, "one", 2, 9);
  add(64, "two", 1, std::nullopt);
  add(128, "one", 1, 30);
  add(128, "one", 2, 40);
  add(256, "one", 2, 90);  // a single time is nothing to search
  const auto spaces = read_recorded(database.export_json(), "file");
  ASSERT_EQ(spaces.size(), 2u);
  EXPECT_EQ(spaces[0].name, "nn 64x64x64 on made-up GPU") << "the largest first";
  EXPECT_EQ(spaces[0].templates.size(), 2u);
  EXPECT_EQ(spaces[0].failed(), 1);
  EXPECT_EQ(spaces[1].best(), 30);
}

TEST(RecordedSpace, SaysWhatIsMissing) {
  EXPECT_THAT(refusal_of("A,B\n1,2\n"), HasSubstr("median_ms"));
  EXPECT_THAT(refusal_of("A,B,median_ms\n1\n"), HasSubstr("line 2: it has 1 fields"));
  EXPECT_THAT(refusal_of("A,median_ms\n1,2,7\n"), HasSubstr("line 2: it has 3 fields"));
  EXPECT_THAT(refusal_of("{\"a\": 1}"), HasSubstr("Kernel Tuner"));
  EXPECT_THAT(refusal_of("{\"cache\": {}}"), HasSubstr("lacks a part"));
  EXPECT_THAT(refusal_of("{\"cache\": {"), HasSubstr("lacks a part"));
  EXPECT_THAT(refusal_of("{\"cache\": {]"), HasSubstr("no complete JSON"));
  EXPECT_THAT(refusal_of("\xEF\xBB\xBF{\"cache\": {]"), HasSubstr("no complete JSON"));
  EXPECT_THAT(refusal_of("{\"cache\": " + std::string(1000, '[')), HasSubstr("deep"));
  EXPECT_THAT(
      refusal_of(
          R"({"results": [{"configuration": {"A": 1}}, {"configuration": {"A": 1, "B": 2}}]})"),
      HasSubstr("result 2 has other parameters"));
  EXPECT_THAT(refusal_of("A,median_ms\n1,\n"), HasSubstr("no configuration with a time"));
  EXPECT_THAT(refusal_of("\x1f\x8b\x08"), HasSubstr("zcat file | autotune replay -"));
  EXPECT_THAT(refusal_of(""), HasSubstr("median_ms"));
}

TEST(RecordedSpace, ListsValuesInAnotherOrderWhenTheyAreShuffled) {
  std::string csv = "A,median_ms\n";
  for (int a = 0; a < 20; ++a) csv += std::to_string(a) + "," + std::to_string(a + 1) + "\n";
  const RecordedSpace space = one_space(csv);
  RecordedSpace shuffled = space;
  shuffled.shuffle_values(1);
  const auto& before = space.templates[0].parameters[0].values;
  const auto& after = shuffled.templates[0].parameters[0].values;
  EXPECT_NE(after, before);
  EXPECT_THAT(after, testing::UnorderedElementsAreArray(before));
  EXPECT_EQ(shuffled.times, space.times);
}

}  // namespace
}  // namespace tilewise::recorded_space_test
