// A Matmul keeps the choices of a limited number of problems. More problems are served all the
// same.
#include <malloc.h>

#include <barrier>
#include <thread>

#include "matmul/state.hpp"
#include "matmul_fixture.hpp"

namespace tilewise::many_problems_test {
namespace {

using testing::Each;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsMemory = false;  // a sanitizer's malloc() has no mallinfo2()
#else
constexpr bool kCountsMemory = true;
#endif

constexpr auto kMore = static_cast<std::int64_t>(kChoices);

/// A product of ones and twos with m rows; the number of wrong elements.
int serve(Matmul& multiply, std::int64_t m) {
  std::vector<float> a(static_cast<std::size_t>(2 * m), 1), b(6, 2), c(std::size_t(3 * m), -1);
  multiply(Layout::nn, m, 3, 2, 1, a.data(), 2, b.data(), 3, 0, c.data(), 3);
  return static_cast<int>(std::count_if(c.begin(), c.end(), [](float x) { return x != 4; }));
}

class ManyProblems : public MatmulTest {
 protected:
  /// Serves `count` products, each of another problem.
  void serve_others(Matmul& multiply, std::int64_t count) {
    const auto compute = std::exchange(device->on_launch, nullptr);
    for (std::int64_t m = 1; m <= count; ++m) serve(multiply, 100'000 + m);
    device->on_launch = compute;
  }
};

TEST_F(ManyProblems, MemoryDoesNotGrowWithTheirNumber) {
  Matmul multiply = make_matmul(std::move(parts));
  device->on_launch = nullptr;
  const auto serve_rows = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t m = from; m < to; ++m) serve(multiply, m);
  };
  serve_rows(1, kMore);
  const std::size_t full = mallinfo2().uordblks;
  serve_rows(kMore, 4 * kMore);
  const std::size_t later = mallinfo2().uordblks;
  EXPECT_EQ(device->launch_count, 4 * kMore - 1);
  EXPECT_EQ(device->loads, 1);
  if (kCountsMemory) {
    EXPECT_LT(double(later), 1.1 * double(full));
  }
}

TEST_F(ManyProblems, AReplacedOneIsServedAgainWithItsLoadedKernel) {
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_EQ(serve(multiply, 5), 0);
  serve_others(multiply, kMore + 100);
  EXPECT_EQ(serve(multiply, 5), 0);
  EXPECT_EQ(device->loads, 1);
  EXPECT_EQ(compiles, 1);
}

TEST_F(ManyProblems, APreparedOneCanBeCapturedAfterManyOthers) {
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(16, 16, 16);
  multiply.prepare(problem);
  serve_others(multiply, kMore + 100);
  const int loads = device->loads;
  Operands x(problem);
  x.call.stream = device->create_stream();
  device->captured.insert(x.call.stream);
  multiply(problem, x.call);
  EXPECT_THAT(x.c, Each(32.0F));
  EXPECT_EQ(device->loads, loads);
}

TEST_F(ManyProblems, ThreadsAreServedWhileOthersReplaceTheirChoices) {
  Matmul multiply = make_matmul(std::move(parts));
  constexpr std::int64_t kThreads = 4;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (std::int64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < kMore / 2; ++i) {
        wrong += serve(multiply, 1 + t * kMore / 2 + i);  // of this thread alone
        wrong += serve(multiply, 1 + i % 100);            // of all threads
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
    for (std::int64_t m = 1; m <= 100; ++m) wrong += serve(*first, m);
    step.arrive_and_wait();  // the first Matmul is destroyed
    step.arrive_and_wait();
    MatmulParts own;
    auto made = std::make_unique<FakeDevice>();
    made->on_launch = fake_product;
    own.device = std::move(made);
    own.warn = [](const std::string&) {};
    own.load_compiler = [] { return std::make_unique<FakeCompiler>(); };
    Matmul second = make_matmul(std::move(own));
    for (std::int64_t m = 1; m <= 100; ++m) wrong += serve(second, m);
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
        for (std::int64_t m = 1; m <= 3; ++m) *wrong += serve(*multiply, m);
    }
  };
  int wrong = 0;
  std::jthread([&] {
    thread_local AtEnd at_end;  // made before what the thread remembers, so destroyed after it
    at_end.multiply = &multiply;
    at_end.wrong = &wrong;
    wrong += serve(multiply, 1);
    wrong += serve(multiply, 2);
  }).join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->launch_count, 8);
}

/// The images that a program with varying m loads: at most two forms of each winner of the types,
/// and the defaults.
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
  for (std::int64_t m = 1; m <= 6000; ++m) multiply.prepare(problem_of(m, 512, 512, Layout::nt));
  EXPECT_LE(device->loads, 2 * winners);
  EXPECT_GT(device->loads, 1);
}

}  // namespace
}  // namespace tilewise::many_problems_test
