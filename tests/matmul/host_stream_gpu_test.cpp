// Products on host pointers by tiles, on a GPU: the same results as without tiles.
#include <dlfcn.h>

#include <cmath>

#include "api/matmul_parts.hpp"
#include "tests/matmul/served_checks.hpp"

namespace tilewise::host_stream_gpu_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Memory of the program, page-locked by the driver like by cudaHostRegister().
class Registered {
 public:
  Registered(void* memory, std::size_t bytes) : memory_(memory) {
    const auto init = function<int(unsigned)>("cuInit");
    const auto retain = function<int(void**, int)>("cuDevicePrimaryCtxRetain");
    const auto push = function<int(void*)>("cuCtxPushCurrent_v2");
    const auto add = function<int(void*, std::size_t, unsigned)>("cuMemHostRegister_v2");
    void* context = nullptr;
    if (!init || !retain || !push || !add || init(0) != 0 || retain(&context, 0) != 0) return;
    retained_ = true;
    if (push(context) != 0) return;
    pushed_ = true;
    done_ = add(memory, bytes, /*CU_MEMHOSTREGISTER_PORTABLE*/ 1) == 0;
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    void* context = nullptr;
    if (done_) function<int(void*)>("cuMemHostUnregister")(memory_);
    if (pushed_) function<int(void**)>("cuCtxPopCurrent_v2")(&context);
    if (retained_) function<int(int)>("cuDevicePrimaryCtxRelease_v2")(0);
  }
  bool done() const { return done_; }

 private:
  template <class Signature>
  Signature* function(const char* name) const {
    return driver_ ? reinterpret_cast<Signature*>(dlsym(driver_, name)) : nullptr;
  }
  void* const driver_ = dlopen("libcuda.so.1", RTLD_NOW);
  void* const memory_;
  bool retained_ = false, pushed_ = false, done_ = false;
};

struct HostStreamGpu : test::Served {
  HostStreamGpu() : Served("auto") {}
  Matmul limited(std::int64_t limit) {
    MatmulParts parts = parts_for(open_device("auto"), options);
    parts.host.memory_limit = limit;
    parts.host.single_bytes = 0;
    parts.host.chunk_bytes = 100'000;
    return make_matmul(std::move(parts));
  }
};

/// A problem of the kind with that index in product_kinds().
Problem problem_of_kind(std::size_t number) {
  const ProductKind& kind = product_kinds()[number];
  const auto turn = static_cast<std::int64_t>(number) + 1;
  return typed_problem(test::kLayouts[turn % 4], 601, 770, 2065, kind.a, kind.b, kind.c, kind.math,
                       turn % 3 == 0 ? 3 : 1);
}

/// One test per kind, because each compiles the kernels of its tiles.
struct HostStreamOfKindGpu : HostStreamGpu, testing::WithParamInterface<std::size_t> {};

TEST_P(HostStreamOfKindGpu, ByTilesAndInPartsOfK) {
  Matmul tiles = limited(12 * kMiB), parts = limited(3 * kMiB);
  const Problem problem = problem_of_kind(GetParam());
  if (problem.a.type != problem.b.type) GTEST_SKIP() << "not on host pointers";
  if (problem.math != MathMode::strict && is_unsupported(tiles, problem))
    GTEST_SKIP() << "not a product of " << device->info().name;
  const auto extra = static_cast<std::int64_t>((GetParam() + 1) % 3);
  check_on_host(tiles, problem, extra);
  check_on_host(parts, problem, extra);
}
INSTANTIATE_TEST_SUITE_P(EveryKind, HostStreamOfKindGpu,
                         testing::Range(std::size_t{0}, product_kinds().size()));

TEST_F(HostStreamGpu, SomeKindsAreSplitInK) {
  Matmul parts = limited(3 * kMiB);
  int sums = 0;
  for (std::size_t kind = 0; kind < product_kinds().size(); ++kind) {
    const Problem problem = problem_of_kind(kind);
    if (problem.a.type != problem.b.type) continue;
    if (problem.math != MathMode::strict && is_unsupported(parts, problem)) continue;
    sums += parts.host_split(problem).tile_k < problem.k;
  }
  EXPECT_GT(sums, 3);
}

/// Positive numbers, so that the bound is relative to the result.
std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(std::size_t(count), 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5F + float(i * 7919 % 4096) / 8192;
  return values;
}

TEST_F(HostStreamGpu, ALargeProductIsNearTheOneOnDevicePointers) {
  const std::int64_t m = 3001, n = 2500, k = 2700;  // over 32 MiB: tiles even without a limit
  const auto a = numbers(m * k), b = numbers(k * n);
  std::vector<float> c(std::size_t(m * n)), expected = c;
  Matmul matmul(options);
  const DeviceBuffer on_a(*device, m * k * 4), on_b(*device, k * n * 4), on_c(*device, m * n * 4);
  device->copy_to_device(on_a.data(), a.data(), on_a.bytes(), nullptr);
  device->copy_to_device(on_b.data(), b.data(), on_b.bytes(), nullptr);
  matmul(Layout::nn, m, n, k, 1, static_cast<float*>(on_a.data()), k,
         static_cast<float*>(on_b.data()), n, 0, static_cast<float*>(on_c.data()), n);
  device->copy_to_host(expected.data(), on_c.data(), on_c.bytes(), nullptr);
  device->synchronize(nullptr);
  const Problem problem = typed_problem<float, float>(Layout::nn, m, n, k);
  EXPECT_GT(matmul.host_split(problem).tiles, 1);
  for (const std::int64_t limit : {std::int64_t{0}, 40 * kMiB, 10 * kMiB}) {
    Matmul streaming = limited(limit);
    std::fill(c.begin(), c.end(), NAN);
    (limit == 0 ? matmul : streaming)
        .host(Layout::nn, m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
    for (std::size_t i = 0; i < c.size(); ++i)
      ASSERT_LE(std::abs(c[i] - expected[i]), 2 * error_bound(problem) * double(expected[i]))
          << i << " with limit " << limit;
  }
}

TEST_F(HostStreamGpu, PageLockedMemoryIsKnown) {
  constexpr std::int64_t bytes = 8 * kMiB, inner = 4096;
  const auto check = [&](std::byte* memory) {
    EXPECT_TRUE(device->page_locked(memory, bytes));
    EXPECT_TRUE(device->page_locked(memory + inner, bytes - inner));
    EXPECT_TRUE(device->page_locked(memory + bytes - 1, 1));
    EXPECT_FALSE(device->page_locked(memory, bytes + 64 * kMiB));
    EXPECT_FALSE(device->page_locked(memory + inner, bytes + 64 * kMiB));
  };
  void* const allocated = device->allocate_host(bytes);
  check(static_cast<std::byte*>(allocated));
  device->free_host(allocated);
  std::vector<std::byte> plain(std::size_t(bytes), std::byte{1});
  EXPECT_FALSE(device->page_locked(plain.data(), bytes));
  EXPECT_FALSE(device->page_locked(plain.data() + inner, 1));
  const Registered registered(plain.data(), plain.size());
  if (!registered.done()) GTEST_SKIP() << "the driver registers no memory";
  check(plain.data());
}

/// Like a program that page-locks its own matrices.
TEST_F(HostStreamGpu, PageLockedMatricesGiveTheSameProduct) {
  for (const std::int64_t batch : {1, 3})
    for (const std::int64_t limit : {9 * kMiB, 200 * kMiB}) {
      const Problem problem =
          typed_problem<float, float>(Layout::tn, 1100, 900, 1300, MathMode::strict, batch);
      SCOPED_TRACE(to_string(problem) + " in " + std::to_string(limit));
      test::WholeNumbers job(problem, 3, 5);
      EXPECT_FALSE(device->page_locked(job.a.at(0), job.a.bytes()));
      std::vector<std::unique_ptr<void, std::function<void(void*)>>> locked;
      for (const test::Elements* x : {&job.a, &job.b, &job.c}) {
        locked.emplace_back(device->allocate_host(x->bytes()),
                            [this](void* memory) { device->free_host(memory); });
        std::memcpy(locked.back().get(), x->memory.data(), x->memory.size());
        ASSERT_TRUE(device->page_locked(locked.back().get(), x->bytes()));
      }
      Matmul matmul = limited(limit);
      matmul.host(problem, job.call(locked[0].get(), locked[1].get(), locked[2].get()));
      std::memcpy(job.c.at(0), locked[2].get(), job.c.memory.size());
      EXPECT_EQ(job.first_wrong(), -1);
    }
}

TEST_F(HostStreamGpu, RowsAreCopiedBetweenPitches) {
  std::vector<std::uint32_t> from(100 * 60), back(100 * 70, 9);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::uint32_t(i);
  const DeviceBuffer there(*device, 100 * 256);
  device->copy_rows_to_device(there.data(), 256, from.data(), 60 * 4, 50 * 4, 100, nullptr);
  device->copy_rows_to_host(back.data(), 70 * 4, there.data(), 256, 50 * 4, 100, nullptr);
  device->synchronize(nullptr);
  for (std::size_t i = 0; i < 100; ++i)
    for (std::size_t j = 0; j < 70; ++j)
      ASSERT_EQ(back[i * 70 + j], j < 50 ? from[i * 60 + j] : 9) << i << ", " << j;
}

TEST_F(HostStreamGpu, AStreamWaitsForAnEventOfAnother) {
  const Stream first = device->create_stream(), second = device->create_stream();
  constexpr std::int64_t words = 64 << 20;
  const DeviceBuffer buffer(*device, words * 4);
  const auto event = device->create_event();
  event->delay(second);  // never recorded: no wait
  for (std::uint32_t turn = 1; turn <= 20; ++turn) {
    device->fill32(buffer.data(), turn, words, first);
    event->record(first);
    event->delay(second);
    std::uint32_t last = 0;
    device->copy_to_host(&last, static_cast<std::uint32_t*>(buffer.data()) + words - 1, 4, second);
    device->synchronize(second);
    EXPECT_EQ(last, turn);
  }
  device->destroy_stream(first);
  device->destroy_stream(second);
}

}  // namespace
}  // namespace tilewise::host_stream_gpu_test
