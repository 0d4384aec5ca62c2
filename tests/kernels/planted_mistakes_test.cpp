// Mistakes planted in kernels that are found without looking for races: each with its line.
#include "tests/kernels/planted.hpp"

namespace tilewise::test {
namespace {

using testing::HasSubstr;

TEST(Planted, WithoutAMistakeNothingIsFound) {
  for (const std::string checker : {TILEWISE_CHECK_PLAIN, TILEWISE_CHECK_ASAN, TILEWISE_CHECK_TSAN})
    for (const std::string& candidate : {kTiled, kStaged, kFragments}) {
      if (checker.empty()) continue;
      const Result result = check(checker, candidate, "", "", "");
      EXPECT_EQ(result.status, 0) << checker << '\n' << result.output;
    }
}

TEST(Planted, AnEdgeMaskThatIsOffByOneReadsPastTheMatrix) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  const Result result = check(TILEWISE_CHECK_ASAN, kTiled, "tiled.cu", "tile.row + a_m < args.m",
                              "tile.row + a_m <= args.m");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("heap-buffer-overflow"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_a[a_m *")));
}

TEST(Planted, AWaitOneStageTooLateIsAWrongResultAndARace) {
  const std::string late =
      "    copies_done<STAGES - 1>();\n    barrier();\n    start(t + STAGES - 1);";
  const Result plain = check(TILEWISE_CHECK_PLAIN, kStaged, "staged.cu", kStage, late);
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.output, HasSubstr("nan instead of"));
  if (std::string(TILEWISE_CHECK_TSAN).empty()) return;
  const Result result = check(TILEWISE_CHECK_TSAN, kStaged, "staged.cu", kStage, late);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("staged.cu", kStage)));
}

TEST(Planted, SharedMemoryWrittenPastItsEnd) {
  const std::string from = "tile_a + TILE * (TILE + 1);", to = "tile_a + TILE * (TILE + 1) + 4;";
  const Result plain = check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", from, to);
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.output, HasSubstr("past the end of its 576 bytes of shared memory"));
  if (std::string(TILEWISE_CHECK_ASAN).empty()) return;
  const Result result = check(TILEWISE_CHECK_ASAN, kTiled, "tiled.cu", from, to);
  EXPECT_THAT(result.output, HasSubstr("heap-buffer-overflow"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_b[held_b(b_k")));
}

TEST(Planted, ABarrierThatOnlySomeThreadsReach) {
  const Result ended = check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", kSecondBarrier,
                             "    if (slow < 3) barrier();\n    a += A_TRANSPOSED");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.output,
              HasSubstr("thread (24,0,0) ends while thread (0,0,0) waits at the barrier "
                        "at " +
                        line_of("tiled.cu", kSecondBarrier)));
  // With another barrier after it, the two meet.
  const std::string first = "    barrier();\n    UNROLL_BY(UNROLL)";
  const Result divergent = check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", first,
                                 "    if (slow < 3) barrier();\n    UNROLL_BY(UNROLL)");
  EXPECT_EQ(divergent.status, 1);
  EXPECT_THAT(divergent.output, HasSubstr("divergent barrier: thread (24,0,0) arrives at " +
                                          line_of("tiled.cu", kSecondBarrier) +
                                          ", thread (0,0,0) at " + line_of("tiled.cu", first)));
}

TEST(Planted, ThreadsThatWaitForWhatNobodyDoes) {
  const Result result =
      check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", kSecondBarrier,
            "    while (tile_a[0] != 77.0f) __nanosleep(1);\n    a += A_TRANSPOSED");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("deadlock: threads only wait: threads 0-63 at " +
                                       line_of("tiled.cu", kSecondBarrier)));
}

TEST(Planted, ACrashAndARunawayKernelAreTheirCasesOwn) {
  const Result crash = check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", "widen(*a)",
                             "widen(*reinterpret_cast<const float*>(8))");
  EXPECT_EQ(crash.status, 1);
  EXPECT_THAT(crash.output, HasSubstr("align 4,4,4: ends with Segmentation fault"));
  const Result runaway =
      check(TILEWISE_CHECK_PLAIN, kTiled, "tiled.cu", kSecondBarrier,
            "    for (volatile int i = 0; i == 0;) {}\n    a += A_TRANSPOSED", "--longest 1");
  EXPECT_EQ(runaway.status, 1);
  EXPECT_THAT(runaway.output, HasSubstr("align 4,4,4: does not end"));
}

}  // namespace
}  // namespace tilewise::test
