// Warp operations on the CPU executor: results, and errors of invalid calls.
#include <gmock/gmock.h>

#include "device/cpu/cpu.hpp"
#include "tests/device/mma_checks.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_warp_test {
namespace {

using cpu::ThreadOrder;
using test::Machine;
using testing::AllOf;
using testing::HasSubstr;

class CpuWarp : public testing::TestWithParam<ThreadOrder> {
 protected:
  std::unique_ptr<Device> device_ = cpu::open_device("host", {GetParam(), 5, 1, 0.2});
  std::unique_ptr<Compiler> compiler_ = cpu::load_compiler({"-O1", ""});
  Machine machine_{*device_, *compiler_};
};
INSTANTIATE_TEST_SUITE_P(Orders, CpuWarp,
                         testing::Values(ThreadOrder::forward, ThreadOrder::reversed,
                                         ThreadOrder::shuffled));

TEST_P(CpuWarp, ShufflesTakeFromTheLaneThatIsMeant) { test::check_shuffles(machine_); }
TEST_P(CpuWarp, VotesCountTheLanesThatTakePart) { test::check_votes(machine_); }
TEST_P(CpuWarp, MatricesAreLoadedIntoTheDocumentedPlaces) { test::check_loads(machine_); }
TEST_P(CpuWarp, FloatsAreRoundedAsDocumented) { test::check_narrow(machine_); }

// Compiles take most of the time, so each thread order runs a share of the cases.
TEST_P(CpuWarp, EachInstructionMultipliesTheDocumentedFragments) {
  const auto hopper = cpu::open_device("host:sm_90a", {GetParam(), 5, 1, 0.2});
  const Target& target = hopper->info().target;
  const auto all = test::mma_documents();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i % 3 == std::size_t(GetParam()) && target.major * 10 + target.minor >= all[i].since)
      test::check_mma({*hopper, *compiler_}, all[i]);
}

TEST_P(CpuWarp, EveryNumberOfEightBitsIsMultipliedAsWhatItIs) {
  const auto hopper = cpu::open_device("host:sm_90a", {GetParam(), 5, 1, 0.2});
  const auto all = test::mma_documents();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].since == 89 && i % 2 == std::size_t(GetParam()) % 2)
      test::check_every_fp8({*hopper, *compiler_}, all[i]);
}

TEST_P(CpuWarp, AWholeProductIsRight) {
  const auto all = test::fragments_cases(80);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i / 3 % 3 == std::size_t(GetParam())) test::check_fragments(machine_, all[i]);
}

/// The error of a kernel with this body and one warp (or `threads`). The body's first line is line
/// 5 of bad.cu.
std::string complaint(const std::string& body, unsigned threads = 32, std::uint32_t shared = 512,
                      ThreadOrder order = ThreadOrder::forward) {
  const auto device = cpu::open_device("host", {order, 5, 1, 0.2});
  static const auto compiler = cpu::load_compiler({"-O0", ""});
  const Machine machine{*device, *compiler};
  const auto kernel = machine.load("bad",
                                   "#include \"words/mma.cuh\"\nstruct Args { int* to; };\n"
                                   "KERNEL(1024, 1) bad(ARGUMENTS Args args) {\n"
                                   "const int lane = threadIdx.x % 32; int x = lane;\n" +
                                       body + "\nargs.to[threadIdx.x] = x;\n}\n",
                                   {}, shared);
  const DeviceBuffer to = machine.upload(std::vector<int>(1024));
  try {
    machine.launch(*kernel, threads, {to.data()}, shared);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    return error.what();
  }
  return "";
}

TEST(WarpMismatch, HalvesThatMeetAmongThemselvesAreRight) {
  const std::string halves = "const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;\n";
  EXPECT_EQ(complaint(halves + "x = shuffle_xor(x, 3, half); x = shuffle_xor(x, 5, half);"), "");
  EXPECT_EQ(complaint("if (lane < 16) x = shuffle_xor(x, 3, 0xffffu);\n"
                      "else warp_barrier(0xffff0000u);\nx = shuffle(x, 0);"),
            "");
}

TEST(WarpMismatch, LanesAtDifferentOperations) {
  EXPECT_THAT(
      complaint("if (lane < 16) x = shuffle(x, 0);\nelse x = which_lanes(x);"),
      AllOf(HasSubstr("bad.cu:bad, block (0,0,0): mismatched warp operation: thread (16,0,0) "
                      "waits with which_lanes at bad.cu:6 (lanes 0xffffffff)"),
            HasSubstr("thread (0,0,0) with shuffle at bad.cu:5 (lanes 0xffffffff)")));
}

TEST(WarpMismatch, LanesAtDifferentLines) {
  EXPECT_THAT(complaint("if (lane % 2) x = shuffle(x, 0);\nelse x = shuffle(x, 0);", 64, 0,
                        ThreadOrder::reversed),
              AllOf(HasSubstr("thread (62,0,0) waits with shuffle at bad.cu:6"),
                    HasSubstr("thread (63,0,0) with shuffle at bad.cu:5")));
}

TEST(WarpMismatch, LanesWithDifferentMasks) {
  EXPECT_THAT(complaint("x = shuffle(x, 0, lane < 16 ? 0xffffffffu : 0xffff0001u);"),
              AllOf(HasSubstr("thread (16,0,0) waits with shuffle at bad.cu:5 (lanes 0xffff0001)"),
                    HasSubstr("thread (0,0,0) with shuffle at bad.cu:5 (lanes 0xffffffff)")));
}

TEST(WarpMismatch, AMaskThatDoesNotNameItsCaller) {
  EXPECT_THAT(complaint("x = which_lanes(true, 0xfffffff7u);"),
              HasSubstr("thread (3,0,0), lane 3, takes part with which_lanes at bad.cu:5 "
                        "(lanes 0xfffffff7), which does not name it"));
}

TEST(WarpMismatch, ALaneThatHasEndedOrEnds) {
  const std::string body = "if (lane == 9) return;\nwarp_barrier();";
  EXPECT_THAT(complaint(body),
              HasSubstr("thread (9,0,0) ends while thread (0,0,0) waits for it with "
                        "warp_barrier at bad.cu:6"));
  EXPECT_THAT(
      complaint("if (lane == 0) return;\nwarp_barrier();"),
      HasSubstr("thread (1,0,0) waits with warp_barrier at bad.cu:6 (lanes 0xffffffff), but "
                "thread (0,0,0) has ended"));
}

TEST(WarpMismatch, ALaneThatWaitsAtABarrier) {
  EXPECT_THAT(
      complaint("if (lane == 9) barrier();\nx = shuffle(x, 0); if (lane != 9) barrier();"),
      HasSubstr("thread (9,0,0) waits at the barrier at bad.cu:5 while thread (0,0,0) waits "
                "for it with shuffle at bad.cu:6"));
  EXPECT_THAT(
      complaint("if (lane == 0) barrier();\nx = shuffle(x, 0); if (lane != 0) barrier();"),
      HasSubstr("thread (1,0,0) waits with shuffle at bad.cu:6 (lanes 0xffffffff), but thread "
                "(0,0,0) waits at the barrier at bad.cu:5"));
}

TEST(WarpMismatch, AWarpThatIsNotWhole) {
  EXPECT_THAT(
      complaint("x = shuffle(x, 0);", 40),
      HasSubstr("thread (32,0,0) waits with shuffle at bad.cu:5 (lanes 0xffffffff), which names "
                "lane 8, but this warp has 8 threads"));
}

TEST(WarpMismatch, LanesThatWaitForOneAnotherInACircleAreADeadlock) {
  EXPECT_THAT(complaint("if (lane == 0) warp_barrier(0x3u);\nif (lane == 1) warp_barrier(0x6u);\n"
                        "if (lane == 2) warp_barrier(0x5u);"),
              AllOf(HasSubstr("deadlock: "), HasSubstr("threads 0 at bad.cu:5 (warp_barrier)"),
                    HasSubstr("1 at bad.cu:6 (warp_barrier)"),
                    HasSubstr("2 at bad.cu:7 (warp_barrier)"), HasSubstr("3-31 ended")));
}

TEST(WarpMismatch, AShuffleFromALaneThatDoesNotTakePart) {
  EXPECT_THAT(complaint("if (lane < 4) x = shuffle(x, 5, 0xfu);"),
              AllOf(HasSubstr("at bad.cu:5: shuffles from a lane that does not take part")));
}

TEST(WarpMismatch, MatricesFromWhereNoneCanBe) {
  const std::string begin = "unsigned to[4];\nconst char* row = (const char*)shared_floats();\n";
  EXPECT_THAT(
      complaint(begin + "load_matrices<4>(to, row + lane * 16 + (lane == 5) * 8);"),
      HasSubstr("thread (5,0,0) at bad.cu:7: load_matrices takes a row that is not aligned to "
                "16 bytes"));
  EXPECT_THAT(
      complaint(begin + "load_matrices<4>(to, row + lane * 16 + 16);"),
      HasSubstr("thread (31,0,0) at bad.cu:7: load_matrices takes a row outside the block's "
                "shared memory"));
  EXPECT_EQ(complaint(begin + "unsigned two[2];\nload_matrices<2>(two, row + lane * 16);", 32, 256),
            "")
      << "the addresses of lanes 16 to 31 do not matter";
}

TEST(WarpMismatch, AMultiplicationOfHalfAWarp) {
  EXPECT_THAT(complaint("double a[4] = {}, b[2] = {}, c[4] = {};\n"
                        "if (lane < 16) multiply_fragments<MmaF64>(c, a, b);"),
              HasSubstr("thread (0,0,0) waits for it with multiply_fragments at bad.cu:6"));
}

}  // namespace
}  // namespace tilewise::cpu_warp_test
