// Names of origins and outcomes, hashes of text, nesting depth of JSON.
#include "vocabulary/record.hpp"

#include <gmock/gmock.h>

#include "tilewise/error.hpp"
#include "vocabulary/hash.hpp"

namespace tilewise::record_test {
namespace {

using testing::AllOf;
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

TEST(Objective, HasARowAtItsPlace) {
  for (const ObjectiveInfo& info : objectives()) {
    EXPECT_EQ(&objective_info(info.objective), &info);
    EXPECT_GE(info.within, kFinalistsWithin) << info.name;
    EXPECT_TRUE(info.cost || !info.needs_energy) << info.name;
  }
  Measurement measurement;
  measurement.median_us = 200, measurement.energy_mj = 7;
  EXPECT_EQ(objective_info(Objective::energy).cost(measurement), 7);
}

TEST(Objective, HasTheNamesOnDisk) {
  EXPECT_EQ(to_string(Objective::time), "time");
  EXPECT_EQ(to_string(Objective::energy), "energy");
  for (const Objective one : {Objective::time, Objective::energy})
    EXPECT_EQ(parse_objective(to_string(one)), one);
  for (const char* bad : {"", "Time", "power"})
    EXPECT_THAT(refusal([&] { parse_objective(bad); }),
                AllOf(HasSubstr("\"" + std::string(bad) + "\""), HasSubstr("time, energy")))
        << bad;
}

TEST(Measurement, EstimatesEnergyByPowerAndTime) {
  Measurement measurement;
  measurement.median_us = 200;
  EXPECT_EQ(estimated_energy_mj(measurement), 0) << "the power is not known";
  measurement.power_w = 500;
  EXPECT_DOUBLE_EQ(estimated_energy_mj(measurement), 100);
}

TEST(Origin, HasTheNamesOnDisk) {
  const std::pair<Origin, const char*> names[] = {
      {Origin::measured, "measured"}, {Origin::imported, "imported"}, {Origin::shipped, "shipped"}};
  for (const auto& [origin, name] : names) {
    EXPECT_EQ(to_string(origin), name);
    EXPECT_EQ(parse_origin(name), origin);
  }
  for (const char* bad : {"", "Measured", "measured ", "export"})
    EXPECT_THAT(
        refusal([&] { parse_origin(bad); }),
        AllOf(HasSubstr("\"" + std::string(bad) + "\""), HasSubstr("measured, imported, shipped")))
        << bad;
  EXPECT_EQ(Record{}.origin, Origin::measured);
}

// Hashes are stored in databases, so these values must never change.
TEST(HashText, KnowsXxh3sAnswers) {
  EXPECT_EQ(hash_text(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_text("abc"), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hash_text(std::string_view("a\0b", 3)), "39797789ed4c7ea0d5a06cd078125351");
  EXPECT_EQ(hash_text(std::string(1000, 'x')), "50a1af5a5f2dcf01c0a4877b962cba82");
}

TEST(NestsDeeper, CountsBracketsOutsideOfStrings) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_FALSE(nests_deeper(""));
  EXPECT_FALSE(nests_deeper(nested(kMostJsonDepth, "[", "]")));
  EXPECT_TRUE(nests_deeper(nested(kMostJsonDepth + 1, "[", "]")));
  EXPECT_TRUE(nests_deeper(nested(kMostJsonDepth + 1, R"({"a":)", "}")));
  EXPECT_TRUE(nests_deeper(nested(20, R"([{"a":)", "}]")));
  EXPECT_FALSE(nests_deeper(nested(10'000, "[]", "{}"))) << "beside each other";
  EXPECT_TRUE(nests_deeper(std::string(75'000, '['))) << "without an end";
  EXPECT_FALSE(nests_deeper("\"" + std::string(1000, '[') + "\"")) << "in a string";
  EXPECT_FALSE(nests_deeper(R"("\")" + std::string(1000, '[') + "\""))
      << "behind a quotation mark that does not end the string";
  EXPECT_TRUE(nests_deeper(R"("\\")" + std::string(1000, '[')))
      << "behind a backslash that ends it";
  EXPECT_TRUE(nests_deeper("[[", 1));
  EXPECT_FALSE(nests_deeper("[[", 2));
  EXPECT_FALSE(nests_deeper("]]]]["));
  EXPECT_FALSE(nests_deeper("\"\\"));
}

TEST(NestsDeeper, RefusesARecordBeforeItIsParsed) {
  std::string deep = R"({"problem":)";
  for (int i = 0; i < 200'000; ++i) deep += "[";
  EXPECT_THAT(refusal([&] { record_from_json(deep); }),
              AllOf(HasSubstr("record"), HasSubstr("more than 32 deep")));
}

}  // namespace
}  // namespace tilewise::record_test
