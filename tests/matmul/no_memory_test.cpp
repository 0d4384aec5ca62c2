#include <algorithm>
#include <cstdlib>
#include <new>

#include "matmul_fixture.hpp"
#include "tilewise/matmul.h"

// Replaced for the whole program, so that a chosen allocation fails. Not inlined, so that the
// compiler finds matching pairs.
namespace {
thread_local long until_failure = 0;  // allocations of this thread; 0: none fails
thread_local bool failed = false;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (until_failure > 0 && --until_failure == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (until_failure > 0 && --until_failure == 0) {
    failed = true;
    return nullptr;
  }
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tilewise::no_memory_test {
namespace {

class NoMemory : public MatmulTest {
 protected:
  /// A Matmul with a stored winner, on its own device.
  Matmul made() {
    auto own = std::make_unique<FakeDevice>();
    device = own.get();
    device->on_launch = fake_product;
    MatmulParts fresh;
    fresh.device = std::move(own);
    fresh.warn = [](const std::string&) {};
    fresh.load_compiler = [this] { return std::make_unique<FakeCompiler>(&compiles, ""); };
    fresh.database = Database::in_memory();
    store(*fresh.database, problem, "simt", false);
    return make_matmul(std::move(fresh));
  }

  /// Makes the first, the second, ... allocation of `work` fail, each with a new Matmul. After 20
  /// it leaves some out. `work` must throw only Error(out_of_memory), and must succeed afterwards
  /// on the same Matmul.
  template <class Work>
  void expect_own_errors(Work work) {
    int failures = 0;
    for (long at = 1;; at += std::max(1L, at / 20)) {
      Matmul matmul = made();
      failed = false;
      until_failure = at;
      try {
        work(matmul);
      } catch (const Error& error) {
        until_failure = 0;
        EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
      } catch (const std::exception& error) {
        until_failure = 0;
        ADD_FAILURE() << "allocation " << at << ": " << error.what();
      }
      until_failure = 0;
      if (!failed) break;
      ++failures;
      EXPECT_NO_THROW(work(matmul)) << "after the failure of allocation " << at;
    }
    EXPECT_GT(failures, 3);
  }

  const Problem problem = problem_of(8, 8, 8);
};

TEST_F(NoMemory, OfAProductIsOurError) {
  Operands x(problem);
  expect_own_errors([&](Matmul& multiply) { multiply(problem, x.call); });
  EXPECT_EQ(x.c.front(), 16);
}

TEST_F(NoMemory, OfAProductOnHostPointersIsOurError) {
  Operands x(problem);
  expect_own_errors([&](Matmul& multiply) { multiply.host(problem, x.call); });
  expect_own_errors([&](Matmul& multiply) { multiply.host_split(problem); });
}

TEST_F(NoMemory, OfWhatIsDoneInAdvanceIsOurError) {
  Operands x(problem);
  expect_own_errors([&](Matmul& multiply) { multiply.prepare(problem); });
  expect_own_errors([&](Matmul& multiply) { multiply.prepare_range(problem, 10); });
  expect_own_errors([&](Matmul& multiply) { multiply.explain(problem); });
  expect_own_errors([&](Matmul& multiply) { multiply.fastest_within(problem, 1e-3); });
  expect_own_errors([&](Matmul& multiply) { multiply.pack_b(problem, x.b.data(), 8); });
}

TEST_F(NoMemory, OfTheConstructorIsOurError) {
  MatmulOptions options;
  options.device = "host";
  options.database = testing::TempDir() + "no_memory_test.db";
  int failures = 0;
  for (long at = 1;; at += std::max(1L, at / 20)) {
    failed = false;
    const MatmulOptions given = options;
    until_failure = at;
    try {
      const Matmul matmul(given);
    } catch (const Error& error) {
      until_failure = 0;
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
    } catch (const std::bad_alloc&) {  // thrown by the caller's copy of the options
      until_failure = 0;
      EXPECT_LE(at, 3);
    }
    until_failure = 0;
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 3);
}

TEST_F(NoMemory, IsAStatusInC) {
  Operands x(problem);
  int failures = 0;
  for (long at = 1;; at += std::max(1L, at / 20)) {
    tilewise_matmul* handle = make_handle(made());
    failed = false;
    until_failure = at;
    const auto multiply = [&] {
      return tilewise_sgemm(handle, TILEWISE_NN, 8, 8, 8, 1, x.a.data(), 8, x.b.data(), 8, 0,
                            x.c.data(), 8, nullptr);
    };
    const tilewise_status status = multiply();
    until_failure = 0;
    if (status != TILEWISE_OK) {
      EXPECT_EQ(status, TILEWISE_OUT_OF_MEMORY) << tilewise_last_error();
      EXPECT_NE(std::string(tilewise_last_error()).find("memory"), std::string::npos);
    }
    EXPECT_EQ(multiply(), TILEWISE_OK) << tilewise_last_error();
    tilewise_destroy(handle);
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 3);
}

}  // namespace
}  // namespace tilewise::no_memory_test
