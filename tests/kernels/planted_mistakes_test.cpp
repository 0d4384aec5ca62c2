// Mistakes planted in the kernels of templates/: each is found by a checker, which names its line.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace {

using testing::AnyOf;
using testing::HasSubstr;

const std::string kTiled = R"(tiled {"READ_B":2,"TILE":8,"UNROLL":4})";
const std::string kStaged =
    R"(simt {"BLOCKS_PER_SM":1,"FMA_ORDER":1,"PACK_A":0,"PACK_B":0,"PREFETCH":4,"RASTER":1,)"
    R"("SPLIT_K":1,"THREAD_M":4,"THREAD_N":4,"TILE_K":8,"TILE_M":32,"TILE_N":32,)"
    R"("TRANSPOSE_A":0,"TRANSPOSE_B":0,"UNROLL":4,"VECTOR_A":1,"VECTOR_B":1,"VECTOR_C":1,)"
    R"("WARP_M":4})";

const std::string kSecondBarrier = "    barrier();\n    a += A_TRANSPOSED";

struct Result {
  int status = -1;
  std::string output;
};

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result check(const std::string& checker, const std::string& candidate, const std::string& file,
             const std::string& from, const std::string& to) {
  std::string command = quoted(checker) + " --only " + quoted(candidate);
  if (!file.empty()) command += " --mutate " + file + " " + quoted(from) + " " + quoted(to);
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Result result;
  char piece[4096];
  for (std::size_t got; (got = fread(piece, 1, sizeof piece, pipe)) > 0;)
    result.output.append(piece, got);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// "tiled.cu:47": where a text stands in a kernel source.
std::string line_of(const std::string& file, const std::string& text) {
  std::ifstream stream(std::string(TILEWISE_SOURCE_DIR) + "/templates/" + file);
  const std::string all{std::istreambuf_iterator<char>(stream), {}};
  const auto at = all.find(text);
  EXPECT_NE(at, all.npos) << file << " has no \"" << text << '"';
  return file + ":" +
         std::to_string(1 + std::count(all.begin(), all.begin() + std::ptrdiff_t(at), '\n'));
}

TEST(Planted, WithoutAMistakeNothingIsFound) {
  for (const std::string checker : {TILEWISE_CHECK_PLAIN, TILEWISE_CHECK_ASAN, TILEWISE_CHECK_TSAN})
    for (const std::string& candidate : {kTiled, kStaged}) {
      if (checker.empty()) continue;
      const Result result = check(checker, candidate, "", "", "");
      EXPECT_EQ(result.status, 0) << checker << '\n' << result.output;
    }
}

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

TEST(Planted, AnEdgeMaskThatIsOffByOneReadsPastTheMatrix) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  const Result result = check(TILEWISE_CHECK_ASAN, kTiled, "tiled.cu", "tile.row + a_m < args.m",
                              "tile.row + a_m <= args.m");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("heap-buffer-overflow"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_a[a_m *")));
}

TEST(Planted, AWaitOneStageTooLateIsAWrongResultAndARace) {
  const std::string from = "copies_done<kStages - 2>()", to = "copies_done<kStages - 1>()";
  const Result plain = check(TILEWISE_CHECK_PLAIN, kStaged, "simt.cu", from, to);
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.output, HasSubstr("nan instead of"));
  if (std::string(TILEWISE_CHECK_TSAN).empty()) return;
  const Result result = check(TILEWISE_CHECK_TSAN, kStaged, "simt.cu", from, to);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("simt.cu", "copies_done<kStages - 2>")));
}

TEST(Planted, ACopyIssuedBeforeItsBufferIsFreeIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result =
      check(TILEWISE_CHECK_TSAN, kStaged, "simt.cu", "    barrier();\n    start(t + kStages - 1);",
            "    start(t + kStages - 1);\n    barrier();");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("simt.cu", "    barrier();\n    start(t")))
      << "the line that start() is on now";
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

TEST(Planted, OneArrayWrittenIntoTheOtherWithinSharedMemory) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const Result result = check(TILEWISE_CHECK_TSAN, kTiled, "tiled.cu",
                              "tile_a + TILE * (TILE + 1);", "tile_a + TILE * (TILE + 1) - 4;");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("data race"));
  EXPECT_THAT(result.output, HasSubstr(line_of("tiled.cu", "tile_a[a_m *")));
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

}  // namespace
