// Mistakes planted in kernels that are found without a race detector, each with its line.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_mistakes_test {
namespace {

using testing::HasSubstr;

TEST(Planted, WithoutAMistakeNothingIsFound) {
  for (const std::string checker : {TILEWISE_CHECK_PLAIN, TILEWISE_CHECK_ASAN, TILEWISE_CHECK_TSAN})
    for (const std::string& candidate : {kTiled, kStaged, kFragments}) {
      if (checker.empty()) continue;
      const Result result = check(checker, candidate);
      EXPECT_EQ(result.status, 0) << checker << '\n' << result.output;
    }
}

TEST(Planted, AnEdgeMaskThatIsOffByOneReadsPastTheMatrix) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  const Result result =
      check(TILEWISE_CHECK_ASAN, kTiled, changed("tiled-row-edge-a"_marker, "<", "<="));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("heap-buffer-overflow"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled-store-a"_marker)));
}

TEST(Planted, AWaitOneStageTooLateIsAWrongResultAndARace) {
  const Mistake late = changed("staged-copy-wait"_marker, "- 2", "- 1");
  const Result plain = check(TILEWISE_CHECK_PLAIN, kStaged, late);
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.output, HasSubstr("nan instead of"));
  if (std::string(TILEWISE_CHECK_TSAN).empty()) return;
  const Result result = check(TILEWISE_CHECK_TSAN, kStaged, late);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("staged-copy-wait"_marker)));
}

TEST(Planted, AMistakeThatASingleRowOrColumnShows) {
  for (const char* but_for : {"args.m > 1 || args.n == 1", "args.n > 1 || args.m == 1"}) {
    const Result result =
        check(TILEWISE_CHECK_PLAIN, kTiled,
              replaced("tiled-multiply-add"_marker, "if (" + std::string(but_for) + ") {line}"));
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("instead of"));
  }
}

TEST(Planted, SharedMemoryWrittenPastItsEnd) {
  const Mistake past = changed("tiled-shared-b"_marker, ";", " + 4;");
  const Result plain = check(TILEWISE_CHECK_PLAIN, kTiled, past);
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.output, HasSubstr("past the end of its 576 bytes of shared memory"));
  if (std::string(TILEWISE_CHECK_ASAN).empty()) return;
  const Result result = check(TILEWISE_CHECK_ASAN, kTiled, past);
  EXPECT_THAT(result.output, HasSubstr("heap-buffer-overflow"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled-store-b"_marker)));
}

TEST(Planted, ABarrierThatOnlySomeThreadsReach) {
  const std::string some = "if (threadIdx.x < 24) {line}";
  const Result ended =
      check(TILEWISE_CHECK_PLAIN, kTiled, replaced("tiled-barrier-after-reads"_marker, some));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.output,
              HasSubstr("thread (24,0,0) ends while thread (0,0,0) waits at the barrier "
                        "at " +
                        line_of("tiled-barrier-after-reads"_marker)));
  // Another barrier follows: threads wait at two different barriers.
  const Result divergent =
      check(TILEWISE_CHECK_PLAIN, kTiled, replaced("tiled-barrier-after-stores"_marker, some));
  EXPECT_EQ(divergent.status, 1);
  EXPECT_THAT(divergent.output,
              HasSubstr("divergent barrier: thread (24,0,0) arrives at " +
                        line_of("tiled-barrier-after-reads"_marker) + ", thread (0,0,0) at " +
                        line_of("tiled-barrier-after-stores"_marker)));
}

TEST(Planted, ThreadsThatWaitForWhatNobodyDoes) {
  const Result result = check(TILEWISE_CHECK_PLAIN, kTiled,
                              replaced("tiled-barrier-after-reads"_marker,
                                       "while (shared_floats()[0] != 77.0f) __nanosleep(1);"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("deadlock: threads only wait: threads 0-63 at " +
                                       line_of("tiled-barrier-after-reads"_marker)));
}

TEST(Planted, ACrashAndARunawayKernelAreTheirCasesOwn) {
  const Result crash =
      check(TILEWISE_CHECK_PLAIN, kTiled,
            changed("tiled-store-a"_marker, "*a", "*reinterpret_cast<const float*>(8)"));
  EXPECT_EQ(crash.status, 1);
  EXPECT_THAT(crash.output, HasSubstr("align 4,4,4: ends with Segmentation fault"));
  const Result runaway =
      check(TILEWISE_CHECK_PLAIN, kTiled,
            replaced("tiled-barrier-after-reads"_marker, "for (volatile int i = 0; i == 0;) {}"),
            "--longest 1");
  EXPECT_EQ(runaway.status, 1);
  EXPECT_THAT(runaway.output, HasSubstr("align 4,4,4: does not end"));
}

}  // namespace
}  // namespace tilewise::test::planted_mistakes_test
