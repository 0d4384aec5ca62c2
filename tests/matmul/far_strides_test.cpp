// Rows and matrices that are farther apart than tensor maps reach (2^40 bytes) are served
// nevertheless.
#include <sys/mman.h>

#include <thread>

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "matmul_fixture.hpp"
#include "tests/matmul/served_checks.hpp"

namespace tilewise::far_strides_test {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 40;  // bytes

struct FarStrides : test::Served {
  FarStrides() : Served("host:sm_90a") {}

  Candidate with(const Problem& problem, const std::string& name, const Configuration& changed) {
    Candidate made{name, find_template(name).default_configuration(problem, device->info())};
    for (const auto& [parameter, value] : changed.values())
      made.configuration.set(parameter, value);
    return made;
  }
};

/// Address space that has memory only where it is touched.
class Space {
 public:
  explicit Space(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        at_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Space() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  std::byte* at() const { return at_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

// A single row may have any leading dimension, because no next row is read.
TEST_F(FarStrides, OfASingleRow) {
  const Problem problem = typed_problem<bf16, bf16>(Layout::nt, 1, 64, 64);
  Matmul matmul = with_winner(problem, with(problem, "wgmma", {{"EPILOGUE", 2}, {"SPLIT_K", 1}}));
  for (const bool far_a : {true, false}) {
    test::WholeNumbers job(problem, 0, 3);
    Call call = job.call(job.a.at(0), job.b.at(0), job.c.at(0));
    (far_a ? call.lda : call.ldc) = kLimit;
    ASSERT_NO_THROW(matmul(problem, call));
    EXPECT_EQ(job.first_wrong(), -1) << (far_a ? "A" : "C");
  }
  test::WholeNumbers near(problem, 0, 3);
  Call call = near.call(near.a.at(0), near.b.at(0), near.c.at(0));
  call.lda = kFarElements - 8;
  matmul(problem, call);
  EXPECT_EQ(near.first_wrong(), -1);
}

TEST_F(FarStrides, OfTheMatricesOfABatch) {
  Problem problem = typed_problem<bf16, bf16>(Layout::nt, 40, 64, 64);
  problem.batch = 2;
  Matmul matmul = with_winner(problem, with(problem, "wgmma", {}));
  test::WholeNumbers job(problem, 0, 3);
  const Space space(kLimit + 4096 * 4);
  if (!space.at()) GTEST_SKIP() << "no address space";
  Call call = job.call(space.at(), job.b.at(0), job.c.at(0));
  const auto bytes = static_cast<std::size_t>(job.stride_a * 2);
  std::memcpy(space.at(), job.a.at(0), bytes);
  std::memcpy(space.at() + kLimit, job.a.at(job.stride_a), bytes);
  call.stride_a = kLimit / 2;
  ASSERT_NO_THROW(matmul(problem, call));
  EXPECT_EQ(job.first_wrong(), -1);
}

/// A product of rows in classes, which need no alignment.
Problem rows_in_classes() {
  Problem problem = typed_problem(Layout::nt, 6, 64, 20, DType::f32, DType::f32, MathMode::tf32);
  problem.a.alignment = 4;
  return problem;
}
const Configuration& classes_of_rows() {
  static const Configuration classes{
      {"TILE_M", 32}, {"TILE_N", 32}, {"TILE_K", 16}, {"WARP_M", 32},  {"WARP_N", 32},
      {"STAGES", 3},  {"TMA", 1},     {"BYTES_A", 4}, {"BYTES_B", 16}, {"SLICE_K", 1},
      {"SPLIT_K", 1}, {"PACK_A", 0},  {"PACK_B", 0}};
  return classes;
}
constexpr std::int64_t kApart = kLimit / 16 + 1;  // elements: four rows exceed a tensor map's limit

TEST_F(FarStrides, OfRowsInClasses) {
  const Problem problem = rows_in_classes();
  const Candidate classes = with(problem, "mma", classes_of_rows());
  Matmul matmul = with_winner(problem, classes);
  const Space space(6 * kApart * 4);
  if (!space.at()) GTEST_SKIP() << "no address space";
  test::WholeNumbers job(problem, 0, 3);
  for (std::int64_t i = 0; i < 6; ++i)
    std::memcpy(space.at() + i * kApart * 4, job.a.at(i * job.lda),
                static_cast<std::size_t>(problem.k * 4));
  Call call = job.call(space.at(), job.b.at(0), job.c.at(0));
  call.lda = kApart;
  ASSERT_NO_THROW(matmul(problem, call));
  EXPECT_EQ(job.first_wrong(), -1);
  expect_served(matmul, problem, classes);
}

/// A device that computes nothing and reads no operand.
struct FarStridesOnAFake : MatmulTest {
  FarStridesOnAFake() {
    device->on_launch = nullptr;
    Candidate classes = candidate(problem, "mma");
    for (const auto& [name, value] : classes_of_rows().values())
      classes.configuration.set(name, value);
    parts.database.emplace(Database::in_memory());
    store(*parts.database, problem, classes, true);
    call.a = memory + 32 * 1024, call.b = memory + 16 * 1024;  // A reaches far beyond
    call.c = memory;
    call.lda = kApart;
    call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
  }
  const Problem problem = rows_in_classes();
  alignas(256) std::byte memory[64 * 1024] = {};
  Call call;
};

TEST_F(FarStridesOnAFake, InACaptureTheyAreToBeMultipliedOnceBefore) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem);
  device->captured = {call.stream};
  try {
    multiply(problem, call);
    ADD_FAILURE() << "its kernel is not loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("multiply once before the capture"));
  }
  device->captured.clear();
  multiply(problem, call);
  device->captured = {call.stream};
  EXPECT_NO_THROW(multiply(problem, call));
}

TEST_F(FarStridesOnAFake, ThreadsThatAskAtTheSameTimeShareTheChoice) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem);
  const int loads = device->loads;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { multiply(problem, call); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->loads, loads + 1);
  EXPECT_EQ(device->launch_count, 8);
}

TEST_F(FarStridesOnAFake, AStoredWinnerWithoutTensorMapsComesBeforeADefault) {
  Problem other = problem;
  other.m += 1;
  Candidate plain = candidate(other, "mma");
  plain.configuration.set("TILE_K", 16);
  ASSERT_NE(plain.configuration, candidate(problem, "mma").configuration);
  store(*parts.database, other, plain, true);
  Matmul multiply = make_matmul(std::move(parts));
  multiply(problem, call);
  EXPECT_EQ(device->loaded.count(multiply_step(plan_of(plain, problem, device->info()))->kernel),
            1U);
  EXPECT_EQ(device->loads, 1) << "the problem's own winner, which has tensor maps, is not loaded";
}

TEST(FarStridesOfACall, CountAsNotAligned) {
  Problem problem = typed_problem<float, float>(Layout::nt, 32, 64, 64);
  problem.batch = 2;
  Call call;
  call.lda = call.ldb = call.ldc = 64;
  call.stride_a = call.stride_b = call.stride_c = kFarElements - 4;
  EXPECT_FALSE(is_far(problem, call));
  EXPECT_EQ(call_alignment(problem, call), (Alignment{16, 16, 16}));
  call.stride_b = kFarElements;
  EXPECT_TRUE(is_far(problem, call));
  EXPECT_EQ(call_alignment(problem, call), (Alignment{16, 4, 16}));
  problem.batch = 1;
  EXPECT_FALSE(is_far(problem, call));
  call.ldc = kFarElements;
  EXPECT_TRUE(is_far(problem, call));
  EXPECT_EQ(call_alignment(problem, call), (Alignment{16, 16, 4}));
}

}  // namespace
}  // namespace tilewise::far_strides_test
