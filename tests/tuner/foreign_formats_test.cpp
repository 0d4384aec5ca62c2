// Records in the forms of other tuners, there and back.
#include "tuner/search/foreign_formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "db/database.hpp"
#include "tilewise/error.hpp"
#include "tuner/search/recorded_space.hpp"

namespace tilewise::foreign_formats_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::EndsWith;

Record record_of(int x, Outcome outcome, double us = 0) {
  Record record;
  record.problem.m = 64;
  record.problem.n = 32;
  record.problem.k = 16;
  record.gpu = "made-up GPU|9.0|132";
  record.candidate = {"simt", {{"X", x}, {"Y", 2}}};
  record.source_hash = record.launch_revision = "1";
  record.outcome = outcome;
  record.compile_ms = 12;
  record.environment.date = "2026-01-02T03:04:05Z";
  if (outcome == Outcome::ok) {
    record.measurement.emplace();
    record.measurement->median_us = us;
    record.measurement->samples = 2;
    record.measurement->launches_per_sample = 1;
    record.measurement->samples_us = {us - 1, us + 1};
  }
  return record;
}

const std::vector<Record> kRecords{record_of(1, Outcome::ok, 500), record_of(4, Outcome::ok, 250),
                                   record_of(2, Outcome::compile_error),
                                   record_of(8, Outcome::wrong_result)};

TEST(ForeignFormats, KernelTunersCacheHasTimesInMillisecondsAndItsEnd) {
  const std::string text = kernel_tuner_text(kRecords);
  EXPECT_THAT(text, EndsWith("}\n}\n")) << "else Kernel Tuner takes it to be unfinished";
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("device_name"), "made-up GPU");
  EXPECT_EQ(json.at("kernel_name"), "simt");
  EXPECT_THAT(json.at("problem_size"), ElementsAre(64, 32, 16));
  EXPECT_THAT(json.at("tune_params").at("X"), ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(json.at("cache").at("4,2").at("time"), 0.25);
  EXPECT_EQ(json.at("cache").at("2,2").at("time"), "CompilationFailedConfig");
  EXPECT_EQ(json.at("cache").at("8,2").at("time"), "RuntimeFailedConfig");
}

TEST(ForeignFormats, T4NamesWhatIsInvalid) {
  const Json results = Json::parse(t4_text(kRecords)).at("results");
  EXPECT_EQ(results.at(0).at("invalidity"), "correct");
  EXPECT_EQ(results.at(0).at("measurements").at(0).at("value"), 0.5);
  EXPECT_THAT(results.at(0).at("times").at("runtimes"), ElementsAre(0.499, 0.501));
  EXPECT_EQ(results.at(2).at("invalidity"), "compile");
  EXPECT_EQ(results.at(3).at("invalidity"), "correctness");
}

TEST(ForeignFormats, BothAreReadAsRecordedSpaces) {
  for (const std::string& text : {kernel_tuner_text(kRecords), t4_text(kRecords)}) {
    const RecordedSpace space = read_recorded(text, "file").at(0);
    EXPECT_EQ(space.times.size(), 4u);
    EXPECT_EQ(space.failed(), 2);
    EXPECT_DOUBLE_EQ(space.best(), 250);
  }
}

TEST(ForeignFormats, BothComeBackAsImportedRecords) {
  Record known;
  known.problem = kRecords[0].problem;
  known.gpu = kRecords[0].gpu;
  known.candidate.kernel_template = "simt";
  for (const std::string& text : {kernel_tuner_text(kRecords), t4_text(kRecords)}) {
    Database database = Database::in_memory();
    EXPECT_EQ(database.import_json(as_export(text, "file", known)).records, 4);
    const auto records = database.records({.problem = known.problem, .gpu = known.gpu});
    ASSERT_EQ(records.size(), 4u);
    for (const Record& record : records) {
      EXPECT_EQ(record.origin, Origin::imported);
      if (record.candidate == kRecords[1].candidate) {
        EXPECT_DOUBLE_EQ(record.measurement->median_us, 250);
      }
    }
  }
}

TEST(ForeignFormats, RefuseWhatTilewiseDoesNotHave) {
  EXPECT_THROW(kernel_tuner_text({}), Error);
  EXPECT_THROW(as_export("KIND,median_ms\ntall,1\n", "file", Record{}), Error);
}

}  // namespace
}  // namespace tilewise::foreign_formats_test
