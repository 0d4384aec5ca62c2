#include <cstdlib>
#include <new>

#include "matmul_fixture.hpp"

// Replaced for the whole program to count the allocations of a served call. Not inlined, so that
// the compiler finds matching pairs.
namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tilewise::hot_path_test {
namespace {

TEST(Counting, Counts) {
  counting = true;
  const std::vector<int> values(3);
  counting = false;
  EXPECT_EQ(values.size(), 3u);
  EXPECT_EQ(allocations, 1);
}

TEST_F(MatmulTest, AServedCallAllocatesNothing) {
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(8, 8, 8);
  Operands x(problem);
  device->on_launch = nullptr;
  multiply(problem, x.call);
  allocations = 0;
  counting = true;
  for (int i = 0; i < 100; ++i)
    multiply(Layout::nn, 8, 8, 8, 1, x.a.data(), 8, x.b.data(), 8, 0, x.c.data(), 8);
  counting = false;
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(device->launch_count, 101);
  EXPECT_EQ(device->loads, 1);
}

TEST_F(MatmulTest, NorDoesOneByTypeInBatchesOrWithAPackedOperand) {
  Problem problem = typed_problem<float, float>(Layout::nt, 320, 384, 272);
  set_alignment(problem, {4, 4, 4});
  Candidate packing = candidate(problem, "simt");
  packing.configuration.set("PACK_B", 2);
  parts.database = Database::in_memory();
  store(*parts.database, problem, packing);
  device->on_launch = nullptr;
  Matmul multiply = make_matmul(std::move(parts));
  Operands x(problem);
  const PackedOperand b = multiply.pack_b(problem, x.b.data(), 272);
  EXPECT_GT(b.bytes(), 0);
  const std::vector<f16> h(64);
  std::vector<float> c(64);
  const auto calls = [&] {
    multiply(Layout::nt, 320, 384, 272, 1, x.a.data(), 272, b, 0, x.c.data(), 384);
    multiply.batched(Layout::nn, 2, 2, 2, 1, h.data(), 2, 4, h.data(), 2, 0, 0, c.data(), 2, 4, 3);
  };
  calls();
  const int packed_launches = device->launch_count;
  allocations = 0;
  counting = true;
  calls();
  counting = false;
  // The fake device's workspaces come from aligned_alloc, which is not counted.
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(device->launch_count, packed_launches);
}

}  // namespace
}  // namespace tilewise::hot_path_test
