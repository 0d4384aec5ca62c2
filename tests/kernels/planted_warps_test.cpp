// Mistakes planted in what a warp does together and in what the GPU copies by itself: each with its
// line.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

using testing::HasSubstr;

// A fragment of A is loaded with its second and third matrix exchanged.
TEST(Planted, AWrongFragmentIndexIsTracedToItsLoad) {
  const std::string from = "(row + lane % 16) * kRow + k + lane / 16 * (STEP - 8)";
  const Result result = check(TILEWISE_CHECK_PLAIN, kFragments, "fragments.cu", from,
                              "(row + lane / 16 * 8 + lane % 8) * kRow + k + lane / 8 % 2 * 8");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr(" instead of "));
  EXPECT_THAT(result.output, HasSubstr("at " + line_of("fragments.cu", "multiply_blocks<Mma>") +
                                       ": wrong fragment: "));
  EXPECT_THAT(result.output, HasSubstr("(lane 0, word 1, loaded at " +
                                       line_of("fragments.cu", from) + ") holds k = 8, but "));
}

// Both halves of a fragment of B are the first.
TEST(Planted, AFragmentLineThatIsLoadedTwiceIsTracedToItsLoad) {
  const std::string from = "column + matrix / Mma::B * 8", to = "column";
  const Result result = check(TILEWISE_CHECK_PLAIN, kFragments, "fragments.cu", from, to);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output,
              HasSubstr("B's column 8, k 0 (lane 0, word 0, loaded at " +
                        line_of("fragments.cu", "load_matrices<kColumns * Mma::B, true>") +
                        ") holds column = 0, and so does B's column 0"));
}

TEST(Planted, ATileThatIsNotWaitedForAndOneWhoseBytesAreMiscounted) {
  const Result early = check(TILEWISE_CHECK_PLAIN, kTiles, "tiles.cu",
                             "    transfer_wait(full + s, t / STAGES % 2);\n", "\n");
  EXPECT_EQ(early.status, 1);
  EXPECT_THAT(early.output,
              HasSubstr("ends without waiting for the tile that load_tile copies at " +
                        line_of("tiles.cu", "load_tile(shared + s * 2 * kBytes, args.a")));
  const Result bytes =
      check(TILEWISE_CHECK_PLAIN, kTiles, "tiles.cu", "transfer_expect(full + s, 2 * kBytes);",
            "transfer_expect(full + s, 3 * kBytes);");
  EXPECT_EQ(bytes.status, 1);
  EXPECT_THAT(bytes.output, HasSubstr("deadlock: threads only wait: threads 0-63 at " +
                                      line_of("tiles.cu", "transfer_wait(full + s")));
}

// The phases run away from the threads that are behind.
TEST(Planted, ATileIssuedBeforeItsStageIsFree) {
  const Result result =
      check(TILEWISE_CHECK_PLAIN, kTiles, "tiles.cu",
            "if (t >= STAGES) transfer_wait(empty + s, (t / STAGES - 1) % 2);", "");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("deadlock: threads only wait: threads 0 ended, 1-63 at " +
                                       line_of("tiles.cu", "transfer_wait(full + s")));
}

TEST(Planted, ALaneThatLeavesItsWarp) {
  const Result result = check(TILEWISE_CHECK_PLAIN, kFragments, "fragments.cu",
                              "      multiply_blocks<Mma>(sums, a, b);",
                              "      if (lane != 3) multiply_blocks<Mma>(sums, a, b);");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output,
              HasSubstr("mismatched warp operation: thread (3,0,0) waits with load_"));
  EXPECT_THAT(result.output, HasSubstr("multiply_fragments at " +
                                       line_of("fragments.cu", "multiply_blocks<Mma>")));
}

}  // namespace
}  // namespace tilewise::test
