// Mistakes planted in warp-wide operations and in TMA loads, each with its line.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_warps_test {
namespace {

using testing::HasSubstr;

// A fragment of A is loaded with its second and third matrix exchanged.
TEST(Planted, AWrongFragmentIndexIsTracedToItsLoad) {
  const Result result =
      check(TILEWISE_CHECK_PLAIN, kFragments,
            replaced("fragments-load-a"_marker,
                     "lane = lane % 8 + lane / 8 % 2 * 16 + lane / 16 * 8; {line}"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr(" instead of "));
  EXPECT_THAT(result.output,
              HasSubstr("at " + line_of("fragments-multiply"_marker) + ": wrong fragment: "));
  EXPECT_THAT(result.output, HasSubstr("(lane 0, word 1, loaded at " +
                                       line_of("fragments-load-a"_marker) + ") holds k = 8, but "));
}

// Both halves of a fragment of B are the first half.
TEST(Planted, AFragmentLineThatIsLoadedTwiceIsTracedToItsLoad) {
  const Result result =
      check(TILEWISE_CHECK_PLAIN, kFragments, changed("fragments-index-b"_marker, "* 8,", "* 0,"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("B's column 8, k 0 (lane 0, word 0, loaded at " +
                                       line_of("fragments-load-b"_marker) +
                                       ") holds column = 0, and so does B's column 0"));
}

TEST(Planted, ATileThatIsNotWaitedForAndOneWhoseBytesAreMiscounted) {
  const Result early = check(TILEWISE_CHECK_PLAIN, kTiles, removed("tiles-full-wait"_marker));
  EXPECT_EQ(early.status, 1);
  EXPECT_THAT(early.output,
              HasSubstr("ends without waiting for the tile that load_tile copies at " +
                        line_of("tiles-load-a"_marker)));
  const Result bytes =
      check(TILEWISE_CHECK_PLAIN, kTiles, changed("tiles-expect-bytes"_marker, "2", "3"));
  EXPECT_EQ(bytes.status, 1);
  EXPECT_THAT(bytes.output, HasSubstr("deadlock: threads only wait: threads 0-63 at " +
                                      line_of("tiles-full-wait"_marker)));
}

// The producer's phases advance without waiting for slower threads.
TEST(Planted, ATileIssuedBeforeItsStageIsFree) {
  const Result result = check(TILEWISE_CHECK_PLAIN, kTiles, removed("tiles-empty-wait"_marker));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("deadlock: threads only wait: threads 0 ended, 1-63 at " +
                                       line_of("tiles-full-wait"_marker)));
}

TEST(Planted, ALaneThatLeavesItsWarp) {
  const Result result =
      check(TILEWISE_CHECK_PLAIN, kFragments,
            replaced("fragments-multiply"_marker, "if (threadIdx.x % 32 != 3) {line}"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output,
              HasSubstr("mismatched warp operation: thread (3,0,0) waits with load_"));
  EXPECT_THAT(result.output,
              HasSubstr("multiply_fragments at " + line_of("fragments-multiply"_marker)));
}

}  // namespace
}  // namespace tilewise::test::planted_warps_test
