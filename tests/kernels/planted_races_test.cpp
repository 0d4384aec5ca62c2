// Mistakes planted in kernels that a thread sanitizer finds: each with its lines.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(Planted, ARemovedBarrierIsARaceOfTwoLines) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kTiled, "tiled.cu", kSecondBarrier, "\n    a += A_TRANSPOSED");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "sum = multiply_add(tile_a")));
  EXPECT_THAT(result.output, AnyOf(HasSubstr(line_of("tiled.cu", "tile_a[a_m *")),
                                   HasSubstr(line_of("tiled.cu", "tile_b[held_b(b_k"))));
}

TEST(Planted, ACopyIssuedBeforeItsBufferIsFreeIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kStaged, "staged.cu", kStage,
            "    copies_done<STAGES - 2>();\n    start(t + STAGES - 1);\n    barrier();");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output,
              HasSubstr(line_of("staged.cu", "    barrier();\n    start(t + STAGES - 1);")))
      << "the line that start() is on now";
}

TEST(Planted, OneArrayWrittenIntoTheOtherWithinSharedMemory) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result = check(TILEWISE_CHECK_TSAN, kTiled, "tiled.cu",
                              "tile_a + TILE * (TILE + 1);", "tile_a + TILE * (TILE + 1) - 4;");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_a[a_m *")));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_b[held_b(b_k")));
}

TEST(Planted, AStageThatIsSaidToBeFreeTooEarlyIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string late = "    transfer_arrive(empty + s);\n", use = "const char* b = a + kBytes;";
  const Result result = check(
      TILEWISE_CHECK_TSAN, kTiles, "tiles.cu", late, "\n",
      "--mutate tiles.cu " + quoted(use) + " " + quoted(use + " transfer_arrive(empty + s);"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output,
              HasSubstr(line_of("tiles.cu", "load_tile(shared + s * 2 * kBytes, args.a")));
  EXPECT_THAT(result.output,
              HasSubstr(line_of("tiles.cu", "return *reinterpret_cast<const float*>")));
}

// The wrong element is watched: who writes it is reported.
TEST(Planted, ASumStoredInAWrongPlaceIsTracedToItsStore) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result = check(TILEWISE_CHECK_TSAN, kFragments, "fragments.cu",
                              "row0 + r * 16 + place.row", "row0 + r * 16 + (place.row ^ 1)");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("C[0][0] is 0.000000 instead of"));
  EXPECT_THAT(result.output, HasSubstr("the watch on the wrong element"));
  EXPECT_THAT(result.output, HasSubstr(line_of("fragments.cu", "c = args.beta == 0.0f")));
  EXPECT_THAT(result.output, HasSubstr("no fragment contradicts itself"));
}

}  // namespace
}  // namespace tilewise::test
