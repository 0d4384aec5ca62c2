// Mistakes planted in simt's pipeline: in the thread that issues TMA loads, their coordinates and
// their time, in stores of tiles that TMA cannot load, and between the work tiles of a stream-K
// block.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_simt_test {
namespace {

const std::string kWrong = " instead of ";

// Both operands packed and loaded by TMA, three stages, four warps.
Subject pipeline(const std::string& checker) {
  return {"Ring", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":16,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":6,"PACK_A":2,"PACK_B":1,"TRANSPOSE_A":0})",
          ""};
}
// A is staged with k contiguous, swizzled; SLICE_K of 2, fragments loaded ahead, SPLIT_K of 2.
Subject ahead(const std::string& checker) {
  return {"Ahead", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":32,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":7,"PACK_A":1,"PACK_B":1,"TRANSPOSE_A":0,)"
          R"("FRAGMENT_K":4,"FRAGMENTS":2,"SLICE_K":2,"SPLIT_K":2})",
          ""};
}
// The same with three stages and all of k, so that stages are refilled.
Subject long_ahead(const std::string& checker) {
  Subject subject = ahead(checker);
  subject.candidate.replace(subject.candidate.find(R"("PREFETCH":7)"), 12, R"("PREFETCH":6)");
  subject.candidate.replace(subject.candidate.find(R"("SPLIT_K":2)"), 11, R"("SPLIT_K":1)");
  return subject;
}
// All threads transpose A; TMA loads B.
Subject mixed(const std::string& checker) {
  return {"Mixed", checker,
          R"(simt {"TILE_M":32,"TILE_N":64,"TILE_K":16,"THREAD_M":4,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":1,"VECTOR_B":4,"PREFETCH":8,"PACK_B":1,"TRANSPOSE_A":1})",
          ""};
}
// Stream-K for the last wave. C of 48 x 48 leaves one on any device, because 32 x 32 tiles are not
// a multiple of 3.
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
                         testing::Values(pipeline(TILEWISE_CHECK_TSAN),
                                         long_ahead(TILEWISE_CHECK_TSAN),
                                         mixed(TILEWISE_CHECK_TSAN), stream_k(TILEWISE_CHECK_TSAN)),
                         name_of);

// The issuing thread.

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

// The coordinates.

TEST(PlantedSimt, TilesAskedForFromTheFirstStepOfKOn) {
  for (const Subject& subject : {ahead(TILEWISE_CHECK_PLAIN), stream_k(TILEWISE_CHECK_PLAIN)})
    expect_found(subject, changed("simt-tile-k"_marker, "= ", "= 0 * "), {kWrong});
}

// The time.

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

TEST(PlantedSimt, AStageFreedWithoutAProxyFenceIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Mistake no_fence = removed("release-fence"_marker);
  for (const Subject& subject : {pipeline(TILEWISE_CHECK_TSAN), mixed(TILEWISE_CHECK_TSAN)})
    expect_found(subject, no_fence,
                 {"data race", "async proxy of warp 0", line_of("simt-tma-load"_marker),
                  line_of("simt-multiply"_marker)});
  expect_found(long_ahead(TILEWISE_CHECK_TSAN), no_fence,
               {"data race", "async proxy of warp 0", line_of("simt-tma-panel"_marker),
                line_of("simt-multiply-ahead"_marker)});
}

TEST(PlantedSimt, AStageFreedBeforeItIsReadIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Mistake no_release = removed("simt-empty-arrive"_marker);
  const std::string early = "stages.pipeline.release(); {line}";
  expect_found(pipeline(TILEWISE_CHECK_TSAN), no_release + replaced("simt-multiply"_marker, early),
               {"data race", line_of("simt-tma-load"_marker), line_of("simt-multiply"_marker)});
  expect_found(
      long_ahead(TILEWISE_CHECK_TSAN), no_release + replaced("simt-multiply-ahead"_marker, early),
      {"data race", line_of("simt-tma-panel"_marker), line_of("simt-multiply-ahead"_marker)});
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

// Between work tiles of a block.

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

TEST(PlantedSimt, TilesOverSumsWithoutAProxyFenceAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(stream_k(TILEWISE_CHECK_TSAN), removed("simt-fence-between-tiles"_marker),
               {"data race", "async proxy of warp 0", line_of("simt-tma-load"_marker)});
}

}  // namespace
}  // namespace tilewise::test::planted_simt_test
