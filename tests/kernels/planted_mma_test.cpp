// Mistakes planted in mma: in what flows through shared memory, in what a warp reads of it, at the
// edges, and in how sums come together.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

const std::string kWrong = " instead of ";
const std::string kFlow = "mma_flow.cuh", kTilesOfMma = "mma_tiles.cuh", kMma = "mma.cu";
const std::string kSixteenBits = "--types bf16 f32 strict";

// Two warps, and a ring of stages that TMA fills from packed operands.
Subject ring(const std::string& checker) {
  return {"Ring", checker,
          R"(mma {"TILE_M":32,"TILE_N":64,"TILE_K":32,"WARP_M":16,"WARP_N":32,"STAGES":3,"TMA":1,)"
          R"("PACK_A":1,"PACK_B":1,"BYTES_A":16,"BYTES_B":16})",
          kSixteenBits};
}
// Rows of any length, shifted in shared memory; sums go through it to rows of C of any length.
Subject shifted(const std::string& checker) {
  return {"Shifted", checker,
          R"(mma {"TILE_M":64,"TILE_N":32,"TILE_K":32,"WARP_M":32,"WARP_N":32,"STAGES":3,)"
          R"("EPILOGUE":1,"VECTOR_C":4})",
          kSixteenBits};
}
// Four groups of warps, two parts of k.
Subject sliced(const std::string& checker) {
  return {"Sliced", checker,
          R"(mma {"TILE_M":32,"TILE_N":32,"TILE_K":64,"WARP_M":32,"WARP_N":32,"SLICE_K":4,)"
          R"("STAGES":2,"FRAGMENTS":2,"SPLIT_K":2})",
          "--types f32 f32 tf32"};
}
// Bytes that lie across k, turned on their way to the tensor cores.
Subject bytes(const std::string& checker) {
  return {"Bytes", checker,
          R"(mma {"TILE_M":32,"TILE_N":128,"TILE_K":128,"WARP_M":32,"WARP_N":64})",
          "--types i8 i32 strict"};
}
// Rows of any length by TMA, in strands.
Subject stranded(const std::string& checker) {
  return {"Stranded", checker,
          R"(mma {"TILE_M":64,"TILE_N":32,"TILE_K":16,"WARP_M":32,"WARP_N":32,"STAGES":3,"TMA":1,)"
          R"("BYTES_A":4,"BYTES_B":4})",
          "--types f32 f32 tf32"};
}
// Two parts of each f32, and sums that are promoted every two steps of k.
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
                         testing::Values(ring(TILEWISE_CHECK_PLAIN), shifted(TILEWISE_CHECK_PLAIN),
                                         sliced(TILEWISE_CHECK_PLAIN), bytes(TILEWISE_CHECK_PLAIN),
                                         stranded(TILEWISE_CHECK_PLAIN),
                                         promoted(TILEWISE_CHECK_PLAIN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Address, UnchangedMma,
                         testing::Values(shifted(TILEWISE_CHECK_ASAN),
                                         stranded(TILEWISE_CHECK_ASAN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedMma,
                         testing::Values(ring(TILEWISE_CHECK_TSAN), shifted(TILEWISE_CHECK_TSAN),
                                         stranded(TILEWISE_CHECK_TSAN)),
                         name_of);

TEST(PlantedMma, AMistakeWhosePlaceIsGoneIsSaidToBe) {
  const Subject s = ring(TILEWISE_CHECK_PLAIN);
  for (const std::string& file : {kFlow, kMma}) {
    const Result result = check(s.checker, s.candidate, file, "no such text", "", s.options);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.output,
                testing::HasSubstr("\"no such text\" does not occur exactly once in " + file));
  }
}

// The ring of stages.

const std::string kFree = "    transfer_arrive_of_warp(free + using_, read & args.unknown_zero());";

TEST(PlantedMma, AStageFreedBeforeItIsReadIsARaceWithTheNextTile) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string bring = "    if (nth == PARTS / 2) ask_for(t + STAGES - 1);";
  Subject s = ring(TILEWISE_CHECK_TSAN);
  s.options += " --mutate " + kFlow + " " + quoted(kFree) + " ''";
  expect_found(
      s, {kFlow, bring, "    if (nth == 0) transfer_arrive_of_warp(free + using_, 0);" + bring},
      {"data race", line_of(kTilesOfMma, "load_tile(tile + p"),
       line_of(kTilesOfMma, "load_matrices<4, !ALONG_K>")});
}

TEST(PlantedMma, AStageFreedBeforeTheWholeWarpHasReadItIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(ring(TILEWISE_CHECK_TSAN),
               {kFlow, kFree, "    if (threadIdx.x % 32 == 0) transfer_arrive(free + using_);"},
               {"data race", line_of(kTilesOfMma, "load_tile(tile + p"),
                line_of(kTilesOfMma, "load_matrices<4, !ALONG_K>")});
}

TEST(PlantedMma, TheParityOfTheRoundBeforeIsARaceWithTheTileThatComes) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  Subject s = ring(TILEWISE_CHECK_TSAN);
  s.candidate.insert(s.candidate.rfind('}'), R"(,"SKIP":1)");
  expect_found(
      s, {kFlow, "transfer_wait(full + using_, using_parity)", "transfer_wait(full + using_, 0)"},
      {"data race", line_of(kTilesOfMma, "load_tile(tile + p")});
}

// Stages that all threads fill.

TEST(PlantedMma, ATileThatIsNotWaitedForIsAWrongResult) {
  expect_found(
      sliced(TILEWISE_CHECK_PLAIN),
      {kFlow, "if constexpr (!EARLY) comes<STAGES - 2>", "if constexpr (!EARLY) comes<STAGES - 1>"},
      {kWrong});
  expect_found(shifted(TILEWISE_CHECK_PLAIN),
               {kFlow, "comes<STAGES - 3>(t + 1", "comes<STAGES - 2>(t + 1"}, {kWrong});
}

TEST(PlantedMma, RowsShiftedBeforeTheirPiecesAreThereAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(
      shifted(TILEWISE_CHECK_TSAN),
      {kTilesOfMma, "if constexpr (SHIFTS) {\n      warp_barrier();", "if constexpr (SHIFTS) {\n"},
      {"data race", line_of(kTilesOfMma, "load_vector<4>(pieces[i]")});
}

TEST(PlantedMma, RowsShiftedWhileANeighbourReadsThemAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string why = "  // a run's first piece is also the one after the run before";
  expect_found(shifted(TILEWISE_CHECK_TSAN), {kTilesOfMma, "warp_barrier();" + why, ""},
               {"data race", line_of(kTilesOfMma, "load_vector<4>(pieces[i]"),
                line_of(kTilesOfMma, "(at[i]), pieces[i])")});
}

// What a warp reads of a tile.

TEST(PlantedMma, HalvesOfAFragmentExchangedAreNamed) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN),
               {kFlow, "a[u / 2][2 * c + u % 2] = word", "a[u / 2][c + 2 * (u % 2)] = word"},
               {kWrong, "wrong fragment: A's row 8, k 0 (lane 0, word 1) holds k = 8"});
  expect_found(bytes(TILEWISE_CHECK_PLAIN), {kFlow, "b[u][c] = word", "b[u][1 - c] = word"},
               {kWrong});
}

TEST(PlantedMma, AnOrderOfPiecesThatIsNotTmasIsAWrongResult) {
  expect_found(ring(TILEWISE_CHECK_PLAIN),
               {kTilesOfMma, "return row / (128 / LINE) % IN_LINE;",
                "return (row + 1) / (128 / LINE) % IN_LINE;"},
               {kWrong});
  expect_found(ring(TILEWISE_CHECK_PLAIN),
               {kTilesOfMma, "(offset ^ bytes % Held::LINE)", "(offset + bytes % Held::LINE)"},
               {kWrong});
}

TEST(PlantedMma, FragmentsReadBehindTheGroupsPartOfATileAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               {kFlow, "first + (step + 1) % kSteps", "first + step + 1"}, {kWrong});
}

TEST(PlantedMma, StrandsReadFromWhereTheirBoxesBeginAreAWrongResult) {
  const std::string file = "mma_strands.cuh";
  expect_found(stranded(TILEWISE_CHECK_PLAIN),
               {file, "Held::early_bytes(matrix, ld, s)", "Held::early_bytes(matrix, ld, 0)"},
               {kWrong, "wrong fragment: A's row"});
  expect_found(stranded(TILEWISE_CHECK_PLAIN), {file, "Held::early_bytes(matrix, ld, strand)", "0"},
               {kWrong});
}

// Edges.

TEST(PlantedMma, ARowPastTheMatrixIsReadPastItsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(shifted(TILEWISE_CHECK_ASAN),
               {kTilesOfMma, "if (of_row >= (ALONG_K", "if (of_row > (ALONG_K"},
               {"heap-buffer-overflow", line_of(kTilesOfMma, "copy_bytes_async<COPIED>")});
}

TEST(PlantedMma, ARowPastTheMatrixIsWrittenPastItsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(shifted(TILEWISE_CHECK_ASAN),
               {kMma, "if (place < to.rows) to.write_nth", "if (place <= to.rows) to.write_nth"},
               {"heap-buffer-overflow", line_of(kMma, "to.write_nth<VECTOR_C>")});
}

TEST(PlantedMma, ALastTileThatCountsAsWholeIsAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               {kFlow, "(k_rest == TILE_K ? tiles : tiles - 1)", "tiles"}, {kWrong});
}

TEST(PlantedMma, RowsOfCThatAreNotShiftedAreMisalignedStores) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  const std::string shift =
      "column -= static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(Out) % "
      "COUNT);";
  expect_found(shifted(TILEWISE_CHECK_ASAN), {kMma, shift, ""}, {"store to misaligned address"});
}

TEST(PlantedMma, RowsOfCThatAreShiftedWithoutTheirSumsAreAWrongResult) {
  expect_found(shifted(TILEWISE_CHECK_PLAIN),
               {kMma, "const int at = column + e;", "const int at = nth * COUNT + e;"}, {kWrong});
}

// Sums.

TEST(PlantedMma, PartsOfKOneTileShortAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               {kMma, "(depth + args.parts() - 1) / args.parts()", "depth / args.parts()"},
               {kWrong});
}

TEST(PlantedMma, AGroupsSumsThatAreAddedTwiceAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               {kMma, "slots[((g - 1) * EACH + i)", "slots[(g / 2 * EACH + i)"}, {kWrong});
}

TEST(PlantedMma, GroupsThatDoNotMeetBeforeTheyAreAddedAreAWrongResult) {
  expect_found(sliced(TILEWISE_CHECK_PLAIN),
               {kMma, "  barrier();\n  if (who.group > 0) return;", "  if (who.group > 0) return;"},
               {kWrong});
}

TEST(PlantedMma, PartialSumsThatAreNotClearedAreAWrongResult) {
  expect_found(promoted(TILEWISE_CHECK_PLAIN),
               {kFlow, "if (step % PROMOTE == 0) {", "if (step == 0) {"}, {kWrong});
}

// Sums are exchanged 16 rows at a time.
TEST(PlantedMma, SumsWrittenBeforeTheOthersAreReadAreAWrongResult) {
  const std::string next = "    UNROLL_ALL\n    for (int q = 0;";
  expect_found(shifted(TILEWISE_CHECK_PLAIN), {kMma, "    warp_barrier();\n" + next, next},
               {kWrong});
}
TEST(PlantedMma, SumsReadBeforeTheOthersHaveWrittenAreAWrongResult) {
  const std::string next = "    UNROLL_BY(1)\n    for (int n = 0;";
  expect_found(shifted(TILEWISE_CHECK_PLAIN), {kMma, "    warp_barrier();\n" + next, next},
               {kWrong});
}

}  // namespace
}  // namespace tilewise::test
