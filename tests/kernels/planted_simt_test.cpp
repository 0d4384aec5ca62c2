// Mistakes planted in simt's pipeline: in who asks TMA, for what and when, in who stores what
// TMA cannot bring, and between the parts that a block of the tail has.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

const std::string kWrong = " instead of ";

// Both operands packed and brought by TMA, three stages, four warps.
Subject pipeline(const std::string& checker) {
  return {"Ring", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":16,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":6,"PACK_A":2,"PACK_B":1,"TRANSPOSE_A":0})",
          ""};
}
// A is held with k contiguous, swizzled; two groups of warps, fragments read ahead, two parts of k.
Subject ahead(const std::string& checker) {
  return {"Ahead", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":32,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":7,"PACK_A":1,"PACK_B":1,"TRANSPOSE_A":0,)"
          R"("FRAGMENT_K":4,"FRAGMENTS":2,"SLICE_K":2,"SPLIT_K":2})",
          ""};
}
// A is turned by all threads, B is brought by TMA.
Subject mixed(const std::string& checker) {
  return {"Mixed", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":16,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":1,"VECTOR_B":4,"PREFETCH":8,"PACK_B":1,"TRANSPOSE_A":1})",
          ""};
}
// The last wave is shared out. 48 x 48 leaves one whatever the device: 32 x 32 tiles are no
// multiple of 3.
Subject stream_k(const std::string& checker) {
  return {"StreamK", checker,
          R"(simt {"TILE_M":48,"TILE_N":48,"TILE_K":16,"THREAD_M":6,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":6,"PACK_A":2,"PACK_B":1,"TRANSPOSE_A":0,)"
          R"("SLICE_K":2,"UNROLL":8,"BLOCKS_PER_SM":3,"STREAM_K":1})",
          ""};
}

class UnchangedSimt : public testing::TestWithParam<Subject> {};

TEST_P(UnchangedSimt, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no such sanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedSimt,
                         testing::Values(pipeline(TILEWISE_CHECK_PLAIN),
                                         ahead(TILEWISE_CHECK_PLAIN), mixed(TILEWISE_CHECK_PLAIN),
                                         stream_k(TILEWISE_CHECK_PLAIN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedSimt,
                         testing::Values(pipeline(TILEWISE_CHECK_TSAN), mixed(TILEWISE_CHECK_TSAN),
                                         stream_k(TILEWISE_CHECK_TSAN)),
                         name_of);

// Who asks.

TEST(PlantedSimt, ALaneThatIsNotThereWhenOneIsChosen) {
  expect_found(pipeline(TILEWISE_CHECK_PLAIN),
               changed("simt-elect-one"_marker, "if (", "if (threadIdx.x % 32 != 3 && "),
               {"mismatched warp operation: thread (3,0,0)",
                "with elect_one at " + line_of("simt-elect-one"_marker)});
}

TEST(PlantedSimt, TwoLanesThatAskAreOneArrivalTooMany) {
  expect_found(pipeline(TILEWISE_CHECK_PLAIN),
               replaced("simt-elect-one"_marker, "if (threadIdx.x % 32 < 2) {"),
               {"at " + line_of("simt-expect-bytes"_marker) + ": one arrival too many"});
}

TEST(PlantedSimt, AnArrivalOfAllWarpsThatIsNotCounted) {
  expect_found(mixed(TILEWISE_CHECK_PLAIN), changed("simt-full-arrivals"_marker, "? ", "? 0 * "),
               {"arrival too many"});
}

// For what.

TEST(PlantedSimt, TilesAskedForFromTheFirstStepOfKOn) {
  for (const Subject& subject : {ahead(TILEWISE_CHECK_PLAIN), stream_k(TILEWISE_CHECK_PLAIN)})
    expect_found(subject, changed("simt-tile-k"_marker, "= ", "= 0 * "), {kWrong});
}

// When.

TEST(PlantedSimt, ATileAskedForBeforeItsStageIsFreeIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(pipeline(TILEWISE_CHECK_TSAN), removed("simt-empty-wait-before-tma"_marker),
               {"data race", line_of("simt-tma-load"_marker), line_of("simt-multiply"_marker)});
}

TEST(PlantedSimt, ATileAskedForSoEarlyThatTheWarpWaitsForItself) {
  expect_found(
      pipeline(TILEWISE_CHECK_PLAIN), changed("simt-tiles-ahead"_marker, "- 2", ""),
      {"deadlock: threads only wait: threads 0-31 at " + line_of("pipeline-wait-empty"_marker)});
}

TEST(PlantedSimt, AStageFreedBeforeTheWholeWarpHasReadItIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(
      pipeline(TILEWISE_CHECK_TSAN),
      replaced(
          "simt-empty-arrive"_marker,
          "if (threadIdx.x % 32 == 0) mbarrier_arrive(pipeline.empty + pipeline.consumer.stage);"),
      {"data race", line_of("simt-tma-load"_marker)});
}

TEST(PlantedSimt, ValuesStoredBeforeTheirStageIsFreeAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(mixed(TILEWISE_CHECK_TSAN), removed("simt-empty-wait-before-stores"_marker),
               {"data race", line_of("simt-store-stage"_marker)});
}

TEST(PlantedSimt, AStageSaidToBeFullBeforeTheWholeWarpHasStoredIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(mixed(TILEWISE_CHECK_TSAN),
               replaced("simt-full-arrive"_marker,
                        "if (threadIdx.x % 32 == 0) mbarrier_arrive(pipeline.producer_barrier());"),
               {"data race", line_of("simt-store-stage"_marker)});
}

// From one part of a block to the next.

TEST(PlantedSimt, TurnsThatBeginAgainWithEveryPart) {
  expect_found(stream_k(TILEWISE_CHECK_PLAIN),
               replaced("simt-first-loads"_marker,
                        "pipeline.producer = StagePhase<kStages>(0), pipeline.consumer = "
                        "StagePhase<kStages>(0); {line}"),
               {"problems like"});
}

TEST(PlantedSimt, TilesOverSumsThatGroupsStillExchangeAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(stream_k(TILEWISE_CHECK_TSAN), removed("simt-barrier-between-tiles"_marker),
               {"data race", line_of("simt-tma-load"_marker)});
}

}  // namespace
}  // namespace tilewise::test
