// Mistakes planted in kernels that ThreadSanitizer finds, each with its lines.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_races_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(Planted, ARemovedBarrierIsARaceOfTwoLines) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kTiled, removed("tiled-barrier-after-reads"_marker));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled-multiply-add"_marker)));
  EXPECT_THAT(result.output, AnyOf(HasSubstr(line_of("tiled-store-a"_marker)),
                                   HasSubstr(line_of("tiled-store-b"_marker))));
}

TEST(Planted, ACopyIssuedBeforeItsBufferIsFreeIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result = check(
      TILEWISE_CHECK_TSAN, kStaged,
      removed("staged-barrier"_marker) + replaced("staged-start-next"_marker, "{line} barrier();"));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("staged-start-next"_marker)));
}

TEST(Planted, OneArrayWrittenIntoTheOtherWithinSharedMemory) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kTiled, changed("tiled-shared-b"_marker, ";", " - 4;"));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled-store-a"_marker)));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled-store-b"_marker)));
}

TEST(Planted, AStageThatIsSaidToBeFreeTooEarlyIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kTiles,
            removed("tiles-empty-arrive"_marker) +
                replaced("tiles-stage-b"_marker, "{line} mbarrier_arrive(empty + s);"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiles-load-a"_marker)));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiles-read"_marker)));
}

TEST(Planted, AStageThatIsFreedWithoutAProxyFenceIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result = check(TILEWISE_CHECK_TSAN, kTiles, removed("tiles-fence"_marker));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr("async proxy of warp 0"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiles-load-a"_marker)));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiles-read"_marker)));
}

// The checker watches the wrong element and reports the store to it.
TEST(Planted, ASumStoredInAWrongPlaceIsTracedToItsStore) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kFragments, changed("fragments-row-c"_marker, "=", "= 1 ^"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("C[0][0] is 0.000000 instead of"));
  EXPECT_THAT(result.output, HasSubstr("the watch on the wrong element"));
  EXPECT_THAT(result.output, HasSubstr(line_of("fragments-store-c"_marker)));
  EXPECT_THAT(result.output, HasSubstr("no fragment contradicts itself"));
}

}  // namespace
}  // namespace tilewise::test::planted_races_test
