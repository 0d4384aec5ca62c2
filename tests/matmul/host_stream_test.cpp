// Products on host pointers by tiles: the same results as without tiles, within the memory limit,
// and with the predicted split; failures leave nothing behind.
#include <cmath>
#include <limits>
#include <random>

#include "api/host_pointers/host_staging.hpp"
#include "lazy_device.hpp"
#include "matmul_fixture.hpp"
#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::host_stream_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

HostSettings small_tiles(std::int64_t limit) {
  HostSettings settings;
  settings.memory_limit = limit;
  settings.granule = 16;
  settings.single_bytes = 0;
  settings.chunk_bytes = 1000;  // so that a block has several chunks, and a long row too
  settings.threads = 3;
  return settings;
}

/// f32 on a fake device that runs its streams as late as possible.
class HostStream : public MatmulTest {
 protected:
  HostStream() {
    auto made = std::make_unique<test::LazyDevice>();
    lazy = made.get();
    device = lazy;
    device->on_launch = fake_product;
    parts.device = std::move(made);
    parts.host = small_tiles(40'000);
  }
  /// Whole numbers; the padding of rows is NaN.
  static std::vector<float> matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld,
                                   int seed) {
    std::vector<float> values(std::size_t(rows * ld), kNan);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        values[std::size_t(i * ld + j)] = float((i * 3 + j * 5 + seed) % 7) - 3;
    return values;
  }
  void check(Matmul& multiply, Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
             std::int64_t extra, float alpha, float beta) {
    const Problem p = problem_of(m, n, k, layout);
    const std::int64_t lda = min_lda(p) + extra, ldb = min_ldb(p) + extra, ldc = n + extra;
    const auto a = matrix(rows_a(p), min_lda(p), lda, 1), b = matrix(rows_b(p), min_ldb(p), ldb, 2);
    auto c = matrix(m, n, ldc, 3);
    if (beta == 0) c.assign(c.size(), kNan);
    const auto before = c;
    multiply.host(layout, m, n, k, alpha, alpha == 0 ? nullptr : a.data(), lda,
                  alpha == 0 ? nullptr : b.data(), ldb, beta, c.data(), ldc);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < ldc; ++j) {
        const auto at = std::size_t(i * ldc + j);
        if (j >= n) {
          ASSERT_TRUE(std::isnan(c[at])) << "padding of row " << i;
          continue;
        }
        float sum = 0;
        for (std::int64_t q = 0; q < (alpha == 0 ? 0 : k); ++q)
          sum += a[std::size_t(a_transposed(layout) ? q * lda + i : i * lda + q)] *
                 b[std::size_t(b_transposed(layout) ? j * ldb + q : q * ldb + j)];
        ASSERT_EQ(c[at], alpha * sum + (beta == 0 ? 0 : beta * before[at])) << i << ", " << j;
      }
  }
  /// Expects that only the kept staging buffers are alive.
  void expect_nothing_left() {
    EXPECT_EQ(device->live_workspaces, 0);
    EXPECT_EQ(device->live_buffers, device->host_bytes > 0 ? 1 : 0);
  }
  test::LazyDevice* lazy = nullptr;
};

TEST_F(HostStream, EveryLayoutAndLimitGivesTheProductAndLeavesPaddingAlone) {
  std::mt19937 random(3);
  int turn = 0;
  for (const std::int64_t limit : {6'000, 12'000, 40'000, 150'000, 1'000'000}) {
    auto made = std::make_unique<test::LazyDevice>();
    test::LazyDevice& own = *made;
    own.on_launch = fake_product;
    MatmulParts small;
    small.device = std::move(made);
    small.load_compiler = parts.load_compiler;
    small.warn = parts.warn;
    small.host = small_tiles(limit);
    Matmul multiply = make_matmul(std::move(small));
    for (const Layout layout : test::kLayouts)
      for (const float beta : {0.0F, 2.0F}) {
        const auto size = [&] { return std::int64_t(1 + random() % 130); };
        const std::int64_t m = size(), n = size(), k = size();
        SCOPED_TRACE(std::to_string(limit) + " " + to_string(problem_of(m, n, k, layout)));
        check(multiply, layout, m, n, k, ++turn % 3, 2, beta);
        ASSERT_LE(own.most_taken, limit);
        if (HasFatalFailure()) return;
      }
  }
}

TEST_F(HostStream, WhatIsSaidInAdvanceIsDone) {
  std::mt19937 random(4);
  Matmul multiply = make_matmul(std::move(parts));
  for (int turn = 0; turn < 12; ++turn) {
    const auto size = [&] { return std::int64_t(40 + random() % 130); };
    const Problem p = problem_of(size(), size(), size(), test::kLayouts[turn % 4]);
    Call call;
    call.beta = turn % 2;
    const HostSplit said = multiply.host_split(p, call);
    device->uploaded_bytes = device->downloaded_bytes = device->launch_count = 0;
    lazy->most_taken = 0;
    check(multiply, layout_of(p), p.m, p.n, p.k, 0, 1, float(call.beta));
    EXPECT_EQ(device->uploaded_bytes, said.bytes_up) << to_string(p);
    EXPECT_EQ(device->downloaded_bytes, said.bytes_down) << to_string(p);
    EXPECT_GE(device->launch_count, said.tiles);
    EXPECT_GT(said.tiles, 1);
    EXPECT_LE(said.device_bytes, 40'000);
    EXPECT_LE(lazy->most_taken, said.device_bytes);
    EXPECT_EQ(device->host_bytes, said.staging_bytes);
  }
  const Problem tight = problem_of(100, 100, 100);
  EXPECT_EQ(multiply.host_split(tight), multiply.host_split(tight, Call{}));
  EXPECT_EQ(multiply.host_split(problem_of(0, 5, 5)), HostSplit{});
}

TEST_F(HostStream, NeitherAlphaZeroNorASumOfNothingReadsAOrB) {
  Matmul multiply = make_matmul(std::move(parts));
  check(multiply, Layout::nn, 120, 100, 90, 1, 0, 2);
  check(multiply, Layout::tn, 120, 100, 90, 0, 0, 0);
  device->uploaded_bytes = 0;
  check(multiply, Layout::nt, 120, 100, 0, 1, 1, 0);
  EXPECT_EQ(device->uploaded_bytes, 0);
}

TEST_F(HostStream, NanOfBetaTimesCStays) {
  Matmul multiply = make_matmul(std::move(parts));
  const std::vector<float> a(100 * 90, 1), b(90 * 110, 1);
  std::vector<float> c(100 * 110, 1);
  c[5] = kNan;
  multiply.host(Layout::nn, 100, 110, 90, 1, a.data(), 90, b.data(), 110, 2, c.data(), 110);
  EXPECT_TRUE(std::isnan(c[5]));
  EXPECT_EQ(c[6], 92);
}

TEST_F(HostStream, StagingBuffersAreKept) {
  Matmul multiply = make_matmul(std::move(parts));
  check(multiply, Layout::nn, 100, 100, 100, 0, 1, 0);
  const std::int64_t kept = device->host_bytes;
  EXPECT_EQ(kept, 3 * 3 * 1000);
  check(multiply, Layout::nn, 90, 120, 100, 0, 1, 0);
  EXPECT_EQ(device->host_bytes, kept);
}

TEST_F(HostStream, DeviceMemoryIsKeptWithinALimitOfTheCaller) {
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(100, 100, 100);
  const HostSplit said = multiply.host_split(problem);
  const std::int64_t free_before = device->free_bytes;
  check(multiply, Layout::nn, 100, 100, 100, 0, 1, 0);
  EXPECT_EQ(device->live_buffers, 2) << "staging buffers and device memory";
  EXPECT_LE(free_before - device->free_bytes, 40'000);
  // Kept memory counts as free for the next product.
  device->free_bytes = 10'000;
  EXPECT_EQ(to_string(multiply.host_split(problem)), to_string(said));
  check(multiply, Layout::nn, 100, 100, 100, 0, 1, 0);
  EXPECT_EQ(device->free_bytes, 10'000);
}

TEST(HostStagingTest, KeptDeviceMemoryLeavesRoomForAWorkspace) {
  FakeDevice device;
  HostStaging staging(device, small_tiles(1000));
  void* const first = staging.device_memory(600);
  EXPECT_EQ(staging.device_memory(500), first);
  EXPECT_EQ(staging.device_bytes(), 600);
  staging.limit_device_memory(600);
  EXPECT_EQ(staging.device_memory(500), first);
  staging.limit_device_memory(599);
  EXPECT_EQ(staging.device_bytes(), 0);
  staging.device_memory(500);
  EXPECT_EQ(staging.device_bytes(), 500);
}

TEST_F(HostStream, WithoutALimitItIsNot) {
  parts.host = small_tiles(0);
  Matmul multiply = make_matmul(std::move(parts));
  const std::int64_t free_before = device->free_bytes;
  for (int turn = 0; turn < 2; ++turn) {
    check(multiply, Layout::nn, 100, 100, 100, 0, 1, 0);
    EXPECT_EQ(device->free_bytes, free_before);
    EXPECT_EQ(device->live_buffers, 1) << "the staging buffers";
  }
}

TEST_F(HostStream, ThreadsMultiplyAtTheSameTime) {
  auto made = std::make_unique<FakeDevice>();
  made->on_launch = fake_product;
  parts.device = std::move(made);
  Matmul multiply = make_matmul(std::move(parts));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] { check(multiply, test::kLayouts[i], 90 + i, 80, 70, i, 1, 2); });
}

TEST_F(HostStream, AFailureAnywhereEndsTheProductAndFreesAll) {
  for (int turn = 0; turn < 40; ++turn) {
    auto made = std::make_unique<test::LazyDevice>();
    test::LazyDevice& own = *made;
    own.on_launch = fake_product;
    (turn % 2 ? own.fail_at_copy : own.fail_at_launch) = turn % 2 ? turn * 3 : turn;
    MatmulParts failing;
    failing.device = std::move(made);
    failing.load_compiler = parts.load_compiler;
    failing.warn = parts.warn;
    failing.host = small_tiles(12'000);
    Matmul multiply = make_matmul(std::move(failing));
    const std::vector<float> a(100 * 100, 1), b = a;
    std::vector<float> c(100 * 100, 1);
    try {
      multiply.host(Layout::nn, 100, 100, 100, 1, a.data(), 100, b.data(), 100, 1, c.data(), 100);
      FAIL() << turn;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      EXPECT_THAT(error.what(), HasSubstr("fake: the "));
    }
    EXPECT_EQ(own.live_buffers, 0) << turn;
    EXPECT_EQ(own.live_workspaces, 0) << turn;
    own.fail_at_copy = own.fail_at_launch = -1;
    check(multiply, Layout::nn, 100, 100, 100, 1, 1, 1);
  }
}

TEST_F(HostStream, ALimitThatIsTooSmallIsRefusedBeforeAnything) {
  parts.host.memory_limit = 3'000;  // three tiles of 16 x 16 take 3072
  Matmul multiply = make_matmul(std::move(parts));
  const std::vector<float> a(100 * 100, 1);
  std::vector<float> c(100 * 100, 5);
  const auto message = [](auto work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto expected = AllOf(HasSubstr("needs 3072 bytes"), HasSubstr("may have 3000"),
                              HasSubstr("are free"), HasSubstr("the limit is 3000"));
  EXPECT_THAT(message([&] {
                multiply.host(Layout::nn, 100, 100, 100, 1, a.data(), 100, a.data(), 100, 0,
                              c.data(), 100);
              }),
              expected);
  EXPECT_THAT(message([&] { multiply.host_split(problem_of(100, 100, 100)); }), expected);
  EXPECT_THAT(c, testing::Each(5.0F));
  EXPECT_EQ(device->uploaded_bytes, 0);
}

TEST_F(HostStream, OperandsBeyond64BitsAreRefused) {
  tilewise_matmul* handle = make_handle(make_matmul(std::move(parts)));
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = problem.k = std::int64_t{1} << 40;
  problem.n = 1;
  EXPECT_EQ(tilewise_host_split(handle, &problem, nullptr, 0, nullptr), TILEWISE_OUT_OF_MEMORY);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("passes 2^63 elements"));
  problem.n = 0;
  std::size_t needed = 0;
  EXPECT_NE(tilewise_host_split(handle, &problem, nullptr, 0, &needed), TILEWISE_OUT_OF_MEMORY);
  problem.m = -1;
  problem.n = 1;
  EXPECT_EQ(tilewise_host_split(handle, &problem, nullptr, 0, nullptr), TILEWISE_INVALID_ARGUMENT);
  tilewise_destroy(handle);
}

TEST_F(HostStream, CSaysTheSplitToo) {
  tilewise_matmul* handle = make_handle(make_matmul(std::move(parts)));
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = problem.n = problem.k = 100;
  std::size_t needed = 0;
  char text[1000];
  EXPECT_EQ(tilewise_host_split(handle, &problem, text, sizeof text, &needed), TILEWISE_OK);
  EXPECT_EQ(needed, std::strlen(text) + 1);
  EXPECT_THAT(text, AllOf(HasSubstr("\"tile\":["), HasSubstr("\"device_bytes\":")));
  EXPECT_EQ(tilewise_host_split(handle, &problem, text, 10, nullptr), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("the split takes"));
  tilewise_destroy(handle);

  tilewise_options options = TILEWISE_OPTIONS_INIT;
  options.device = "host";
  options.host_memory_limit = -1;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("host_memory_limit is -1"));
}

/// All kinds of products, on the CPU executor.
struct HostStreamOnTheCpu : test::Served {
  HostStreamOnTheCpu() : Served("host") {}
  Matmul limited(std::int64_t limit) {
    MatmulParts parts = parts_for(open_device("host"), options);
    parts.host = small_tiles(limit);
    return make_matmul(std::move(parts));
  }
};

TEST_F(HostStreamOnTheCpu, EveryKindInPartsOfKBatchedOrNot) {
  Matmul parts = limited(9'000), tiles = limited(90'000);
  int turn = 0, sums = 0;
  for (const ProductKind& kind : test::whole_byte_kinds()) {
    if (kind.a != kind.b) continue;  // not on host pointers
    const std::int64_t batch = ++turn % 3 == 0 ? 3 : 1;
    const Problem problem = typed_problem(test::kLayouts[turn % 4], 33, 40, 260, kind.a, kind.b,
                                          kind.c, kind.math, batch);
    if (kind.math != MathMode::strict && is_unsupported(tiles, problem)) continue;
    sums += parts.host_split(problem).tile_k < problem.k;
    check_on_host(parts, problem, turn % 3);
    check_on_host(tiles, problem, turn % 3);
  }
  EXPECT_GT(sums, 10);
}

TEST_F(HostStreamOnTheCpu, SumsInPartsAreRoundedOnce) {
  Matmul parts = limited(4'000);
  const Problem problem = typed_problem<bf16, bf16>(Layout::nn, 16, 16, 256);
  ASSERT_LT(parts.host_split(problem).tile_k, 256);
  const std::vector<bf16> ones(16 * 256, bf16{0x3f80});
  std::vector<bf16> c(16 * 16);
  Call call;
  call.a = call.b = ones.data(), call.c = c.data();
  call.lda = 256, call.ldb = call.ldc = 16;
  call.alpha = 1.01;
  parts.host(problem, call);
  // 258.56 is rounded to a multiple of 2. Rounding the parts of 16.16 one by one would stay at 256.
  for (const bf16& x : c) ASSERT_EQ(to_double(DType::bf16, &x), 258);
}

/// The workspace of tiles follows their slots, and a small product has its own workspace.
TEST_F(HostStreamOnTheCpu, KernelsOfTilesHaveAWorkspace) {
  const Problem problem = typed_problem<float, float>(Layout::nn, 64, 96, 128);
  const HostSplit before = limited(60'000).host_split(problem);
  ASSERT_GT(before.tiles, 1);
  Problem tile = problem;
  tile.m = before.tile_m, tile.n = before.tile_n, tile.k = before.tile_k;
  const KernelTemplate& simt = find_template("simt");
  Candidate candidate{"simt", simt.default_configuration(tile, device->info())};
  candidate.configuration.set("SPLIT_K", 2);
  with_winner(tile, candidate);
  Matmul matmul = limited(60'000);
  EXPECT_GT(matmul.host_split(problem).device_bytes, before.device_bytes);
  for (const std::int64_t extra : {0, 1, 0}) check_on_host(matmul, problem, extra);
  MatmulParts whole = parts_for(open_device("host"), options);
  Matmul at_once = make_matmul(std::move(whole));
  EXPECT_EQ(at_once.host_split(tile).tiles, 1);
  check_on_host(at_once, tile, 0);
}

TEST_F(HostStreamOnTheCpu, ManySmallProductsShareTiles) {
  Matmul matmul = limited(30'000);
  const Problem problem = typed_problem<float, float>(Layout::nt, 12, 9, 11, MathMode::strict, 50);
  EXPECT_GT(matmul.host_split(problem).tile_batch, 1);
  for (const std::int64_t extra : {0, 2}) check_on_host(matmul, problem, extra);
}

}  // namespace
}  // namespace tilewise::host_stream_test
