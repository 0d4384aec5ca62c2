#include "vocabulary/text.hpp"

#include <gmock/gmock.h>

#include "tilewise/dtype.hpp"

namespace tilewise::text_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Text, JoinsTextNumbersNamesAndMembers) {
  struct Item {
    std::string name;
  };
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(std::vector<const char*>{"a", "", "b"}), "a, , b") << "an empty item is an item";
  EXPECT_EQ(join(std::vector{1, 2, 3}, "x"), "1x2x3");
  EXPECT_EQ(join(std::vector{DType::f32, DType::i8}, " or "), "f32 or i8");
  EXPECT_EQ(join(std::vector{Item{"a"}, Item{"b"}}, "; ", &Item::name), "a; b");
}

TEST(Text, AppendsBehindASeparator) {
  std::string list;
  append(list, "a");
  append(list, "b");
  append(list, "c", "; ");
  EXPECT_EQ(list, "a, b; c");
}

TEST(Text, CountsInWords) {
  EXPECT_EQ(counted(0, "problem"), "0 problems");
  EXPECT_EQ(counted(1, "problem"), "1 problem");
  EXPECT_EQ(counted(2, "more GPU"), "2 more GPUs");
}

TEST(Text, TrimsAndSplits) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_THAT(words_of("  a\tb \n c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(words_of(" "), IsEmpty());
  EXPECT_EQ(lower_case("Tile_M8"), "tile_m8");
}

}  // namespace
}  // namespace tilewise::text_test
