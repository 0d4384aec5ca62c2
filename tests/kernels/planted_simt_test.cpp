// Mistakes planted in simt's ring of stages: in who asks TMA, for what and when, in who stores what
// TMA cannot bring, and between the parts that a block of the tail has.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

const std::string kWrong = " instead of ";
const std::string kFlow = "simt_flow.cuh", kSimt = "simt.cu", kTilesOfSimt = "simt_tiles.cuh";

// Both operands packed and brought by TMA, three stages, four warps.
Subject ring(const std::string& checker) {
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
Subject tail(const std::string& checker) {
  return {"Tail", checker,
          R"(simt {"TILE_M":48,"TILE_N":48,"TILE_K":16,"THREAD_M":6,"THREAD_N":4,"WARP_M":8,)"
          R"("VECTOR_A":4,"VECTOR_B":4,"PREFETCH":6,"PACK_A":2,"PACK_B":1,"TRANSPOSE_A":0,)"
          R"("SLICE_K":2,"UNROLL":8,"BLOCKS_PER_SM":3,"TAIL":1})",
          ""};
}

class UnchangedSimt : public testing::TestWithParam<Subject> {};

TEST_P(UnchangedSimt, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no such sanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedSimt,
                         testing::Values(ring(TILEWISE_CHECK_PLAIN), ahead(TILEWISE_CHECK_PLAIN),
                                         mixed(TILEWISE_CHECK_PLAIN), tail(TILEWISE_CHECK_PLAIN)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedSimt,
                         testing::Values(ring(TILEWISE_CHECK_TSAN), mixed(TILEWISE_CHECK_TSAN),
                                         tail(TILEWISE_CHECK_TSAN)),
                         name_of);

// Who asks.

const std::string kChosen = "if (chosen_lane()) {";

TEST(PlantedSimt, ALaneThatIsNotThereWhenOneIsChosen) {
  expect_found(ring(TILEWISE_CHECK_PLAIN),
               {kFlow, kChosen, "if (threadIdx.x % 32 != 3 && chosen_lane()) {"},
               {"mismatched warp operation: thread (3,0,0)",
                "with chosen_lane at " + line_of(kFlow, kChosen)});
}

TEST(PlantedSimt, TwoLanesThatAskAreOneArrivalTooMany) {
  expect_found(ring(TILEWISE_CHECK_PLAIN), {kFlow, kChosen, "if (threadIdx.x % 32 < 2) {"},
               {"at " + line_of(kFlow, "transfer_expect(full") + ": one arrival too many"});
}

TEST(PlantedSimt, AnArrivalOfAllWarpsThatIsNotCounted) {
  expect_found(mixed(TILEWISE_CHECK_PLAIN),
               {kFlow, "(TRANSFERRED > 0) + (STAGED ? kThreads / 32 : 0)", "TRANSFERRED > 0"},
               {"arrival too many"});
}

// For what.

TEST(PlantedSimt, TilesAskedForFromTheFirstStepOfKOn) {
  const std::string begin = "static_cast<int>(part.k_begin) + t * TILE_K";
  for (const Subject& subject : {ahead(TILEWISE_CHECK_PLAIN), tail(TILEWISE_CHECK_PLAIN)})
    expect_found(subject, {kFlow, begin, "t * TILE_K"}, {kWrong});
}

// When.

TEST(PlantedSimt, ATileAskedForBeforeItsStageIsFreeIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string wait = "      wait_free();\n";
  expect_found(ring(TILEWISE_CHECK_TSAN), {kFlow, wait + "      " + kChosen, "\n      " + kChosen},
               {"data race", line_of(kFlow, "load_tile(to, map, static_cast"),
                line_of(kFlow, "read = multiply_tile(sums, stage()")});
}

TEST(PlantedSimt, ATileAskedForSoEarlyThatTheWarpWaitsForItself) {
  expect_found(ring(TILEWISE_CHECK_PLAIN), {kFlow, "AHEAD = kStages - 2", "AHEAD = kStages"},
               {"deadlock: threads only wait: threads 0-31 at " +
                line_of(kFlow, "transfer_wait(free + filled.stage")});
}

TEST(PlantedSimt, AStageFreedBeforeTheWholeWarpHasReadItIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string arrive =
      "    transfer_arrive_of_warp(free + used.stage, read & args.unknown_zero());";
  expect_found(
      ring(TILEWISE_CHECK_TSAN),
      {kFlow, arrive, "    if (threadIdx.x % 32 == 0) transfer_arrive(free + used.stage);"},
      {"data race", line_of(kFlow, "load_tile(to, map, static_cast")});
}

TEST(PlantedSimt, ValuesStoredBeforeTheirStageIsFreeAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string store = "      coming.finish(source, next_stage());";
  expect_found(mixed(TILEWISE_CHECK_TSAN), {kFlow, "      wait_free();\n" + store, "\n" + store},
               {"data race", line_of(kFlow, store)});
}

TEST(PlantedSimt, AStageSaidToBeFullBeforeTheWholeWarpHasStoredIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(mixed(TILEWISE_CHECK_TSAN),
               {kFlow, "      transfer_arrive_of_warp(full + filled.stage, 0);",
                "      if (threadIdx.x % 32 == 0) transfer_arrive(full + filled.stage);"},
               {"data race", line_of(kFlow, "coming.finish(source, next_stage());")});
}

// From one part of a block to the next.

TEST(PlantedSimt, TurnsThatBeginAgainWithEveryPart) {
  const std::string first = "    for (int t = 0; t < AHEAD; ++t) {\n      start(args";
  expect_found(tail(TILEWISE_CHECK_PLAIN),
               {kFlow, "    UNROLL_ALL\n" + first, "    filled = used = Turn();\n" + first},
               {"problems like"});
}

TEST(PlantedSimt, TilesOverSumsThatGroupsStillExchangeAreARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(tail(TILEWISE_CHECK_TSAN), {kSimt, "if (nth > 0) shared_free();", ""},
               {"data race", line_of(kFlow, "load_tile(to, map, static_cast")});
}

}  // namespace
}  // namespace tilewise::test
