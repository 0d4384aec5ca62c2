// Records in the formats of other tuners, in both directions.
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
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

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

/// The values that the options of `import` name.
Record known_as(const std::string& kernel_template) {
  Record known;
  known.problem = kRecords[0].problem;
  known.gpu = kRecords[0].gpu;
  known.candidate.kernel_template = kernel_template;
  return known;
}

Configuration naive_of(int tile_m, int tile_n) {
  return {{"TILE_M", tile_m}, {"TILE_N", tile_n}, {"ACROSS", 1}, {"UNROLL", 4}};
}

std::vector<Record> naive_records() {
  std::vector<Record> records = kRecords;
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].candidate = {"naive", naive_of(1 << i, 32)};
  return records;
}

std::string refusal_of(const std::string& text, const Record& known) {
  try {
    as_export(text, "file", known);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "it was taken: " << text;
  return "";
}

TEST(ForeignFormats, BothComeBackAsImportedRecords) {
  const std::vector<Record> records = naive_records();
  const Record known = known_as("naive");
  for (const std::string& text : {kernel_tuner_text(records), t4_text(records)}) {
    Database database = Database::in_memory();
    EXPECT_EQ(database.import_json(as_export(text, "file", known)), 4);
    const auto imported = database.records({.problem = known.problem, .gpu = known.gpu});
    ASSERT_EQ(imported.size(), 4u);
    for (const Record& record : imported) {
      EXPECT_EQ(record.origin, Origin::imported);
      if (record.candidate == records[1].candidate) {
        EXPECT_DOUBLE_EQ(record.measurement->median_us, 250);
      }
    }
  }
}

TEST(ForeignFormats, OfAnotherKernelNothingIsTaken) {
  // CLBlast's Xgemm in Kernel Tuner's cache.
  EXPECT_THAT(refusal_of(R"({"kernel_name": "Xgemm", "tune_params_keys": ["MWG", "NWG"],
                             "cache": {"16,16": {"MWG": 16, "NWG": 16, "time": 1.5}}})",
                         known_as("simt")),
              AllOf(HasSubstr("nothing was imported"), HasSubstr("configuration 1 of 1"),
                    HasSubstr("unknown parameter MWG")));
}

/// One row that is not of the template is enough for a refusal, even if it is the last or a failed
/// one.
TEST(ForeignFormats, EveryRowIsAValidConfigurationOrNothingIsTaken) {
  const auto with = [](const std::string& name, int value) {
    std::vector<Record> records = naive_records();
    records.back().candidate.configuration.set(name, value);
    return records;
  };
  std::vector<Record> without = naive_records();
  for (std::size_t i = 0; i < without.size(); ++i)
    without[i].candidate.configuration = {{"TILE_M", 1 << i}, {"TILE_N", 32}};
  const std::pair<std::vector<Record>, const char*> files[] = {
      {with("TILE_M", 7), "TILE_M=7 is not one of"},
      {with("TILE_N", 1), "constraint block_size"},
      {without, "parameter ACROSS is missing"},
  };
  for (const auto& [records, reason] : files)
    for (const std::string& text : {kernel_tuner_text(records), t4_text(records)})
      EXPECT_THAT(refusal_of(text, known_as("naive")),
                  AllOf(HasSubstr("nothing was imported"), HasSubstr("configuration "),
                        HasSubstr("of 4"), HasSubstr(reason)));
}

TEST(ForeignFormats, ValuesAreWholeNumbers) {
  const auto cache = [](const std::string& value) {
    return R"({"tune_params_keys": ["TILE_M", "TILE_N", "ACROSS", "UNROLL"], "cache": {"x": {
               "TILE_M": )" +
           value + R"(, "TILE_N": 32, "ACROSS": 1, "UNROLL": 4, "time": 1.5}}})";
  };
  EXPECT_THAT(as_export(cache("8.0"), "file", known_as("naive")), HasSubstr("\"TILE_M\": 8"));
  for (const char* value : {"8.5", "\"tall\"", "true", "NaN", "null", "1e30", "[8]"})
    EXPECT_THAT(refusal_of(cache(value), known_as("naive")), HasSubstr("no whole number")) << value;
}

TEST(ForeignFormats, RefuseWhatTilewiseDoesNotHave) {
  EXPECT_THROW(kernel_tuner_text({}), Error);
  for (const char* text : {"TILE_M,median_ms\n8,1\n", "{}", "[]", "", "{\"records\": []}"})
    EXPECT_THAT(refusal_of(text, known_as("naive")), HasSubstr("neither Kernel Tuner's cache"));
  EXPECT_THAT(refusal_of(R"({"results": []})", known_as("naive")), HasSubstr("no configuration"));
  EXPECT_THAT(refusal_of(t4_text(naive_records()), known_as("other")), HasSubstr("other"));
  Record of_no_gpu = known_as("naive");
  of_no_gpu.gpu = "H200";
  EXPECT_THAT(refusal_of(t4_text(naive_records()), of_no_gpu), HasSubstr("not a GPU key"));
}

}  // namespace
}  // namespace tilewise::foreign_formats_test
