// Mistakes planted in mma: in its pipeline, in the fragments that a warp loads, at the edges, and
// in the sums.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_mma_test {
namespace {

const std::string kWrong = " instead of ";
const std::string kSixteenBits = "--types bf16 f32 strict";

// Two warps, and a pipeline filled by TMA from packed operands.
Subject pipeline(const std::string& checker) {
  return {"Ring", checker,
          R"(mma {"TILE_M":32,"TILE_N":64,"TILE_K":32,"WARP_M":16,"WARP_N":32,"STAGES":3,"TMA":1,)"
          R"("PACK_A":1,"PACK_B":1,"BYTES_A":16,"BYTES_B":16})",
          kSixteenBits};
}
// Rows of any length are realigned in shared memory; sums pass through it to rows of C of any
// length.
Subject shifted(const std::string& checker) {
  return {"Shifted", checker,
          R"(mma {"TILE_M":64,"TILE_N":32,"TILE_K":32,"WARP_M":32,"WARP_N":32,"STAGES":3,)"
          R"("EPILOGUE":1,"VECTOR_C":4})",
          kSixteenBits};
}
// SLICE_K of 4, SPLIT_K of 2.
Subject sliced(const std::string& checker) {
  return {"Sliced", checker,
          R"(mma {"TILE_M":32,"TILE_N":32,"TILE_K":64,"WARP_M":32,"WARP_N":32,"SLICE_K":4,)"
          R"("STAGES":2,"FRAGMENTS":2,"SPLIT_K":2})",
          "--types f32 f32 tf32"};
}
// Bytes that are not contiguous along k are transposed when the fragments are loaded.
Subject bytes(const std::string& checker) {
  return {"Bytes", checker,
          R"(mma {"TILE_M":32,"TILE_N":128,"TILE_K":128,"WARP_M":32,"WARP_N":64})",
          "--types i8 i32 strict"};
}
// Rows of any length, loaded by TMA in row classes.
Subject row_classes(const std::string& checker) {
  return {"RowClasses", checker,
          R"(mma {"TILE_M":64,"TILE_N":32,"TILE_K":16,"WARP_M":32,"WARP_N":32,"STAGES":3,"TMA":1,)"
          R"("BYTES_A":4,"BYTES_B":4})",
          "--types f32 f32 tf32"};
}
// Two parts of each f32; sums are promoted every two steps of k.
Subject promoted(const std::string& checker) {
  return {"Promoted", checker,
          R"(mma {"TILE_M":32,"TILE_N":32,"TILE_K":32,"WARP_M":16,"WARP_N":32,"PROMOTE":2})",
          "--types f32 f32 f32x3"};
}

class UnchangedMma : public testing::TestWithParam<Subject> {};

TEST_P(UnchangedMma, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no such sanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedMma,
                         testing::Values(pipeline(TILEWISE_CHECK_PLAIN),
                                         shifted(TILEWISE_CHECK_PLAIN),
                                         sliced(TILEWISE_CHECK_PLAIN), bytes(TILEWISE_CHECK_PLAIN),
                                         row_classes(TILEWISE_CHECK_PLAIN),
                                         promoted(TILEWISE_CHECK_PLAIN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Address, UnchangedMma,
                         testing::Values(shifted(TILEWISE_CHECK_ASAN),
                                         row_classes(TILEWISE_CHECK_ASAN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedMma,
                         testing::Values(pipeline(TILEWISE_CHECK_TSAN),
                                         shifted(TILEWISE_CHECK_TSAN),
                                         row_classes(TILEWISE_CHECK_TSAN)),
                         name_of);

// The pipeline.

TEST(PlantedMma, AStageFreedBeforeItIsReadIsARaceWithTheNextTile) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(pipeline(TILEWISE_CHECK_TSAN),
               removed("mma-empty-arrive"_marker) +
                   replaced("mma-issue-loads"_marker, "if (nth == 0) pipeline.release(); {line}"),
               {"data race", line_of("mma-tma-load"_marker), line_of("mma-ldmatrix"_marker)});
  expect_found(
      row_classes(TILEWISE_CHECK_TSAN),
      removed("mma-empty-arrive"_marker) +
          replaced("mma-issue-loads"_marker, "if (nth == 0) pipeline.release(); {line}"),
      {"data race", line_of("mma-row-class-load"_marker), line_of("mma-row-class-read"_marker)});
}

TEST(PlantedMma, AStageFreedWithoutAProxyFenceIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(pipeline(TILEWISE_CHECK_TSAN), removed("release-fence"_marker),
               {"data race", "async proxy of warp 0", line_of("mma-tma-load"_marker),
                line_of("mma-ldmatrix"_marker)});
  expect_found(row_classes(TILEWISE_CHECK_TSAN), removed("release-fence"_marker),
               {"data race", "async proxy of warp 0", line_of("mma-row-class-load"_marker),
                line_of("mma-row-class-read"_marker)});
}

TEST(PlantedMma, AProxyFenceOfOneLaneIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(pipeline(TILEWISE_CHECK_TSAN),
               replaced("release-fence"_marker, "if (threadIdx.x % 32 == 0) {line}"),
               {"data race", "async proxy of warp 0", line_of("mma-ldmatrix"_marker)});
}

// The thread that issues the load may also execute the fence, after it has waited.
TEST(PlantedMma, AProxyFenceBeforeTheLoadIsEnough) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Subject subject = pipeline(TILEWISE_CHECK_TSAN);
  const Mistake moved =
      removed("release-fence"_marker) + changed("pipeline-wait-empty"_marker, "producer.phase);",
                                                "producer.phase); fence_proxy_async();");
  const Result result = check(subject.checker, subject.candidate, moved, subject.options);
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(PlantedMma, AStageFreedBeforeTheWholeWarpHasReadItIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(
      pipeline(TILEWISE_CHECK_TSAN),
      replaced(
          "mma-empty-arrive"_marker,
          "if (threadIdx.x % 32 == 0) mbarrier_arrive(pipeline.empty + pipeline.consumer.stage);"),
      {"data race", line_of("mma-tma-load"_marker), line_of("mma-ldmatrix"_marker)});
}

TEST(PlantedMma, MbarriersThatTmaDoesNotKnow) {
  expect_found(pipeline(TILEWISE_CHECK_PLAIN), removed("pipeline-ready"_marker),
               {"without mbarriers_ready()"});
}

TEST(PlantedMma, TheParityOfTheRoundBeforeIsARaceWithTheTileThatComes) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  Subject s = pipeline(TILEWISE_CHECK_TSAN);
  s.candidate.insert(s.candidate.rfind('}'), R"(,"SKIP_EDGE_WARPS":1)");
  expect_found(s, changed("pipeline-wait-full"_marker, "consumer.phase", "0"),
               {"data race", line_of("mma-tma-load"_marker)});
}

// Stages filled by all threads.

TEST(PlantedMma, ATileThatIsNotWaitedForIsAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN), changed("mma-copy-wait"_marker, "- 2", "- 1"),
               {kWrong});
  expect_found(shifted(TILEWISE_CHECK_PLAIN), changed("mma-copy-wait-early"_marker, "- 3", "- 2"),
               {kWrong});
}

TEST(PlantedMma, RowsShiftedBeforeTheirPiecesAreThereAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(shifted(TILEWISE_CHECK_TSAN), removed("mma-landed-barrier"_marker),
               {"data race", line_of("mma-realign-read"_marker)});
}

TEST(PlantedMma, RowsShiftedWhileANeighbourReadsThemAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(
      shifted(TILEWISE_CHECK_TSAN), removed("mma-realign-barrier"_marker),
      {"data race", line_of("mma-realign-read"_marker), line_of("mma-realign-write"_marker)});
}

// Fragments.

TEST(PlantedMma, HalvesOfAFragmentExchangedAreNamed) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN),
               changed("mma-words-a"_marker, "2 * c + u % 2", "c + 2 * (u % 2)"),
               {kWrong, "wrong fragment: A's row 8, k 0 (lane 0, word 1) holds k = 8"});
  expect_found(bytes(TILEWISE_CHECK_PLAIN), changed("mma-words-b"_marker, "[c]", "[1 - c]"),
               {kWrong});
}

TEST(PlantedMma, AnOrderOfPiecesThatIsNotTmasIsAWrongResult) {
  expect_found(pipeline(TILEWISE_CHECK_PLAIN),
               changed("mma-swizzle-row"_marker, "row /", "(row + 1) /"), {kWrong});
  expect_found(pipeline(TILEWISE_CHECK_PLAIN), changed("mma-swizzle-offset"_marker, "^", "+"),
               {kWrong});
}

TEST(PlantedMma, FragmentsReadBehindTheGroupsPartOfATileAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN), changed("mma-read-next"_marker, "% kSteps", ""),
               {kWrong});
}

TEST(PlantedMma, RowClassesReadFromWhereTheirBoxesBeginAreAWrongResult) {
  expect_found(row_classes(TILEWISE_CHECK_PLAIN),
               changed("mma-row-class-along-k"_marker, ", s)", ", 0)"),
               {kWrong, "wrong fragment: A's row"});
  expect_found(row_classes(TILEWISE_CHECK_PLAIN),
               changed("mma-row-class-across-k"_marker, "+ Tile", "+ 0 * Tile"), {kWrong});
}

TEST(PlantedMma, FragmentsThatAreCutInsteadOfRoundedAreAWrongResult) {
  expect_found(
      sliced(TILEWISE_CHECK_PLAIN),
      changed("mma-round"_marker, "tf32_of_float(float_of(words[i][w]))", "words[i][w] & ~0x1fffu"),
      {kWrong});
}

// Edges.

TEST(PlantedMma, ARowPastTheMatrixIsReadPastItsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(shifted(TILEWISE_CHECK_ASAN), changed("mma-row-edge"_marker, ">=", ">"),
               {"heap-buffer-overflow", line_of("mma-cp-async"_marker)});
}

TEST(PlantedMma, ARowPastTheMatrixIsWrittenPastItsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(shifted(TILEWISE_CHECK_ASAN), changed("mma-store-row-c"_marker, " < ", " <= "),
               {"heap-buffer-overflow", line_of("mma-store-row-c"_marker)});
}

TEST(PlantedMma, ALastTileThatCountsAsWholeIsAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN), changed("mma-inner-tiles"_marker, "- 1", ""),
               {kWrong});
}

TEST(PlantedMma, RowsOfCThatAreNotShiftedAreMisalignedStores) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(shifted(TILEWISE_CHECK_ASAN), removed("epilogue-align-column"_marker),
               {"store to misaligned address"});
}

TEST(PlantedMma, RowsOfCThatAreShiftedWithoutTheirSumsAreAWrongResult) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN),
               changed("epilogue-shifted-column"_marker, "column", "nth * COUNT"), {kWrong});
}

// Sums.

TEST(PlantedMma, PartsOfKOneTileShortAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               changed("schedule-part-tiles"_marker, "part_tiles", "part_tiles / 2"), {kWrong});
}

TEST(PlantedMma, AGroupsSumsThatAreAddedTwiceAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               changed("mma-add-group-sums"_marker, "(g - 1)", "g / 2"), {kWrong});
}

TEST(PlantedMma, GroupsThatDoNotMeetBeforeTheyAreAddedAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN), removed("mma-barrier-before-group-sums"_marker),
               {kWrong});
}

TEST(PlantedMma, PartialSumsThatAreNotClearedAreAWrongResult) {
  expect_found(promoted(TILEWISE_CHECK_PLAIN),
               changed("mma-clear-partial-sums"_marker, "% PROMOTE", ""), {kWrong});
}

// The epilogue scratch holds 16 rows at a time.
TEST(PlantedMma, SumsWrittenBeforeTheOthersAreReadAreAWrongResult) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN), removed("mma-barrier-before-epilogue-writes"_marker),
               {kWrong});
}
TEST(PlantedMma, SumsReadBeforeTheOthersHaveWrittenAreAWrongResult) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN), removed("mma-barrier-before-epilogue-reads"_marker),
               {kWrong});
}

}  // namespace
}  // namespace tilewise::test::planted_mma_test
