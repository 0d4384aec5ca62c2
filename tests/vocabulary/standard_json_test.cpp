// JSON as Python writes it.
#include "vocabulary/standard_json.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tilewise::standard_json_test {
namespace {

TEST(StandardJson, NumbersThatAreNoneBecomeTexts) {
  EXPECT_EQ(standard_json(R"({"a": NaN, "b": [Infinity,-Infinity,-1]})"),
            R"({"a": "NaN", "b": ["Infinity","-Infinity",-1]})");
  EXPECT_EQ(standard_json("NaN"), "\"NaN\"");
}

TEST(StandardJson, TextsStayAsTheyAre) {
  for (const std::string text : {R"({"NaN": "Infinity \" NaN \\"})", R"(["\\\"", "-Infinity"])", "",
                                 "\"", "\"\\", R"({"a": Na})"})
    EXPECT_EQ(standard_json(text), text);
  EXPECT_EQ(standard_json(R"(["\\", NaN, "\"", NaN])"), R"(["\\", "NaN", "\"", "NaN"])");
}

TEST(StandardJson, AByteOrderMarkIsLeftOut) { EXPECT_EQ(standard_json("\xEF\xBB\xBF[1]"), "[1]"); }

}  // namespace
}  // namespace tilewise::standard_json_test
