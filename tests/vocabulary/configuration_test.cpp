#include "vocabulary/configuration.hpp"

#include <gmock/gmock.h>

#include "tilewise/error.hpp"

namespace tilewise::configuration_test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& json) {
  try {
    Configuration::parse(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Configuration, TextIsCanonicalWhateverTheOrder) {
  const Configuration one{{"TILE_M", 128}, {"TILE_K", 8}, {"PREFETCH", -1}};
  Configuration other;
  other.set("PREFETCH", 3);
  other.set("TILE_K", 8);
  other.set("TILE_M", 128);
  other.set("PREFETCH", -1);
  EXPECT_EQ(one.text(), R"({"PREFETCH":-1,"TILE_K":8,"TILE_M":128})");
  EXPECT_EQ(one, other);
  EXPECT_EQ(Configuration{}.text(), "{}");
}

TEST(Configuration, LaterValueOfADuplicateCounts) {
  EXPECT_EQ((Configuration{{"A", 1}, {"A", 2}}).text(), R"({"A":2})");
}

TEST(Configuration, FindsAndNamesWhatIsMissing) {
  const Configuration c{{"B", 2}, {"D", 4}};
  EXPECT_EQ(c.at("B"), 2);
  EXPECT_EQ(*c.find("D"), 4);
  for (const char* absent : {"A", "C", "E", ""}) EXPECT_EQ(c.find(absent), nullptr) << absent;
  try {
    c.at("TILE_M");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("TILE_M"));
  }
}

TEST(Configuration, ParseTakesBackTheText) {
  const Configuration c{
      {"TILE_M", 128}, {"a \"quoted\"\nname", -2147483647 - 1}, {"Z", 2147483647}};
  EXPECT_EQ(Configuration::parse(c.text()), c);
  EXPECT_EQ(Configuration::parse(" { \"Z\" : 1 , \"A\" : 2 } ").text(), R"({"A":2,"Z":1})");
}

TEST(Configuration, ParseReadsAnyOrderAndTheLastOfADuplicate) {
  EXPECT_EQ(Configuration::parse(R"({"Z":1,"A":2})").text(), R"({"A":2,"Z":1})");
  EXPECT_EQ(Configuration::parse(R"({"A":1,"A":2})").text(), R"({"A":2})");
  EXPECT_EQ(Configuration::parse(R"({"A":-0,"B":0,"C":-7})").text(), R"({"A":0,"B":0,"C":-7})");
  EXPECT_EQ(Configuration::parse("{}"), Configuration{});
}

TEST(Configuration, ParseRefusesWhatIsAlmostTheText) {
  for (const char* json :
       {"", "{", "}", "{,}", R"({"A":1,})", R"({,"A":1})", R"({"A":1"B":2})", R"({"A":01})",
        R"({"A":-})", R"({"A":-01})", R"({"A":})", R"({"A"})", R"({"A:1})", R"({A:1})",
        R"({"A":1}})", R"({"A":+1})", R"({"A" 1})", R"({"A":1;"B":2})"})
    EXPECT_THAT(refusal(json), HasSubstr("not JSON")) << json;
}

TEST(Configuration, ParseSaysWhatIsWrong) {
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal(R"({"A":1.5})"), HasSubstr("A is not a whole number"));
  EXPECT_THAT(refusal(R"({"A":"1"})"), HasSubstr("A is not a whole number"));
  EXPECT_THAT(refusal(R"({"A":2147483648})"), HasSubstr("A does not fit"));
  EXPECT_THAT(refusal(R"({"A":-2147483649})"), HasSubstr("A does not fit"));
  EXPECT_THAT(refusal(R"({"A":18446744073709551615})"), HasSubstr("A does not fit"));
}

TEST(Candidate, TextAndOrder) {
  const Candidate simt{"simt", {{"TILE_K", 8}}};
  EXPECT_EQ(to_string(simt), R"(simt {"TILE_K":8})");
  EXPECT_LT((Candidate{"naive", {{"Z", 9}}}), simt);
  EXPECT_LT(simt, (Candidate{"simt", {{"TILE_K", 16}}}));
}

}  // namespace
}  // namespace tilewise::configuration_test
