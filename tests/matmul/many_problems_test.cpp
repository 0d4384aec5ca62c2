// A Matmul keeps the choices of a limited number of problems. Further problems are served as well.
#include <malloc.h>

#include <barrier>
#include <thread>

#include "matmul/serving.hpp"
#include "matmul_fixture.hpp"

namespace tilewise::many_problems_test {
namespace {

using testing::Each;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsMemory = false;  // a sanitizer's malloc() has no mallinfo2()
#else
constexpr bool kCountsMemory = true;
#endif

constexpr int kMore = kCachedExecutables + 100;

/// Serves problem number `i` of 32,768, all with one kernel. Returns the number of wrong elements.
int serve(Matmul& multiply, int i) {
  constexpr int kRows = 64, kColumns = 512;
  static const std::vector<float> a(kRows * 4, 1), b(2 * kColumns, 2);
  const int m = 1 + i % kRows, n = 1 + i / kRows;
  std::vector<float> c(std::size_t(m * kColumns));
  multiply(Layout::nn, m, n, 2, 1, a.data(), 4, b.data(), kColumns, 0, c.data(), kColumns);
  int wrong = 0;
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column)
      wrong += c[std::size_t(row * kColumns + column)] != 4;
  return wrong;
}

class ManyProblems : public MatmulTest {
 protected:
  /// Serves the problems with these numbers without the computation.
  void serve_range(Matmul& multiply, int from, int to) {
    const auto compute = std::exchange(device->on_launch, nullptr);
    for (int i = from; i < to; ++i) serve(multiply, i);
    device->on_launch = compute;
  }
};

TEST_F(ManyProblems, MemoryDoesNotGrowWithTheirNumber) {
  if (!kCountsMemory) GTEST_SKIP() << "a sanitizer's malloc() has no mallinfo2()";
  Matmul multiply = make_matmul(std::move(parts));
  serve_range(multiply, 0, kMore);
  const std::size_t full = mallinfo2().uordblks;
  serve_range(multiply, kMore, 3 * kMore);
  const std::size_t later = mallinfo2().uordblks;
  EXPECT_EQ(device->launch_count, 3 * kMore);
  EXPECT_EQ(device->loads, 1);
  EXPECT_LT(double(later), 1.1 * double(full));
}

TEST_F(ManyProblems, AReplacedOneIsServedAndCapturedWithItsLoadedKernel) {
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_EQ(serve(multiply, 5), 0);
  const Problem prepared = problem_of(16, 16, 16, Layout::tn);
  multiply.prepare(prepared);
  serve_range(multiply, 100, 100 + kMore);
  EXPECT_EQ(serve(multiply, 5), 0);
  Operands x(prepared);
  x.call.stream = device->create_stream();
  device->captured.insert(x.call.stream);
  multiply(prepared, x.call);
  EXPECT_THAT(x.c, Each(32.0F));
  EXPECT_EQ(device->loads, 2);
  EXPECT_EQ(compiles, 2);
}

TEST_F(ManyProblems, ThreadsAreServedWhileOthersReplaceTheirChoices) {
  Matmul multiply = make_matmul(std::move(parts));
  constexpr int kThreads = 4, kEach = kMore / 3;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        wrong += serve(multiply, 100 + t * kEach + i);  // problems of this thread only
        wrong += serve(multiply, i % 100);              // problems of all threads
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->loads, 1);
}

TEST_F(ManyProblems, AThreadThatRemembersADestroyedMatmulGoesOn) {
  auto first = std::make_unique<Matmul>(make_matmul(std::move(parts)));
  std::barrier step(2);
  int wrong = 0;
  std::jthread other([&] {
    for (int i = 0; i < 100; ++i) wrong += serve(*first, i);
    step.arrive_and_wait();  // the first Matmul is destroyed
    step.arrive_and_wait();
    MatmulParts own;
    auto made = std::make_unique<FakeDevice>();
    made->on_launch = fake_product;
    own.device = std::move(made);
    own.warn = [](const std::string&) {};
    own.load_compiler = [] { return std::make_unique<FakeCompiler>(); };
    Matmul second = make_matmul(std::move(own));
    for (int i = 0; i < 100; ++i) wrong += serve(second, i);
  });
  step.arrive_and_wait();
  first.reset();
  step.arrive_and_wait();
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ManyProblems, AThreadMayMultiplyWhileItEnds) {
  Matmul multiply = make_matmul(std::move(parts));
  struct AtEnd {
    Matmul* multiply = nullptr;
    int* wrong = nullptr;
    ~AtEnd() {
      for (int round = 0; round < 2; ++round)
        for (int i = 1; i <= 3; ++i) *wrong += serve(*multiply, i);
    }
  };
  int wrong = 0;
  std::jthread([&] {
    thread_local AtEnd at_end;  // made before the thread's cache, so destroyed after it
    at_end.multiply = &multiply;
    at_end.wrong = &wrong;
    wrong += serve(multiply, 1);
    wrong += serve(multiply, 2);
  }).join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->launch_count, 8);
}

/// docs/embedding.md: each winner has at most three multiply kernels, here without packs.
TEST_F(ManyProblems, LoadFewKernels) {
  parts.database = Database::in_memory();
  int winners = 0;
  for (const std::int64_t m : {16, 100, 1000, 5000})
    for (const char* kernel : {"simt", "tiled"}) {
      const Problem problem = problem_of(m + (kernel[0] == 't'), 512, 512, Layout::nt);
      Candidate stored = candidate(problem, kernel);
      if (kernel[0] == 's') stored.configuration.set("SPECIALIZE_SIZE", 1);
      store(*parts.database, problem, stored);
      ++winners;
    }
  device->on_launch = nullptr;
  Matmul multiply = make_matmul(std::move(parts));
  for (std::int64_t m = 1; m <= 6000; m += 1 + m / 50)
    multiply.prepare(problem_of(m, 512, 512, Layout::nt));
  EXPECT_LE(device->loads, 3 * winners);
  EXPECT_GT(device->loads, 1);
}

}  // namespace
}  // namespace tilewise::many_problems_test
