// Packed operands on the CPU executor, with the pack steps of GPUs.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/matmul/served_checks.hpp"

namespace tilewise::packed_host_test {
namespace {

struct PackedOnTheCpu : test::Served {
  PackedOnTheCpu() : Served("host") {}
  static Problem problem_of(std::int64_t m) {
    return typed_problem<float, float>(Layout::nt, m, 70, 33);
  }
  Matmul with_packing_winner() {
    return with_winner(problem_of(64), packing(problem_of(64), "simt", 1, 2));
  }
};

TEST_F(PackedOnTheCpu, ResultsAreTheSameBitForBit) {
  Matmul matmul = with_packing_winner();
  test::check_packed(*device, matmul, problem_of(64));
}

TEST_F(PackedOnTheCpu, OnTensorCoresToo) {
  const Problem problem = typed_problem<f16, float>(Layout::nt, 64, 70, 33);
  if (!find_template("mma").supports(problem, device->info())) GTEST_SKIP() << "no tensor cores";
  Matmul matmul = with_winner(problem, packing(problem, "mma", 2, 1));
  test::check_packed(*device, matmul, problem);
}

TEST_F(PackedOnTheCpu, ByTypeAndInAProductOfTypedPointers) {
  Matmul matmul = with_packing_winner();
  const Problem p = problem_of(64);
  const std::vector<float> a(std::size_t(p.m * p.k), 2.0F), b(std::size_t(p.n * p.k), 0.5F);
  std::vector<float> c(std::size_t(p.m * p.n));
  const PackedOperand packed = matmul.pack_b(p, b.data(), p.k);
  EXPECT_GT(packed.bytes(), 0);
  matmul(layout_of(p), p.m, p.n, p.k, 1, a.data(), p.k, packed, 0, c.data(), p.n);
  EXPECT_EQ(c, std::vector<float>(c.size(), 33.0F));
}

TEST_F(PackedOnTheCpu, WithoutAPackInThePlanTheOriginalIsRead) {
  Matmul matmul(options);  // the default packs nothing
  const Problem p = problem_of(8);
  test::PackedProducts product(*device, matmul, p);
  const PackedOperand packed = matmul.pack_b(p, product.b.data(), p.k);
  EXPECT_EQ(packed.bytes(), 0);
  EXPECT_EQ(product(p, nullptr, &packed), product(p, nullptr, nullptr));
  EXPECT_EQ(matmul.pack_b(problem_of(0), product.b.data(), p.k).bytes(), 0);
}

TEST_F(PackedOnTheCpu, RefusesABadOperand) {
  Matmul matmul(options);
  const Problem p = problem_of(8);
  const std::vector<float> b(std::size_t(p.n * p.k));
  EXPECT_THROW(matmul.pack_b(p, nullptr, p.k), Error);
  EXPECT_THROW(matmul.pack_b(p, b.data(), p.k - 1), Error);
  EXPECT_THROW(matmul.pack_b(p, reinterpret_cast<const char*>(b.data()) + 2, p.k), Error);
  EXPECT_THROW(matmul.pack_a(p, b.data(), 0), Error);
}

TEST_F(PackedOnTheCpu, TheChildOfAForkReleasesNothingOfItsParents) {
  auto matmul = std::make_unique<Matmul>(with_packing_winner());
  const Problem p = problem_of(64);
  const std::vector<float> b(std::size_t(p.n * p.k), 0.5F);
  auto packed = std::make_unique<PackedOperand>(matmul->pack_b(p, b.data(), p.k));
  EXPECT_GT(packed->bytes(), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    matmul.reset();
    packed.reset();
    std::_Exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "it hung, or crashed";
}

TEST_F(PackedOnTheCpu, NoPackInsideACaptureButProductsWithOne) {
  Matmul matmul = with_packing_winner();
  const Problem p = problem_of(64);
  const std::vector<float> a(std::size_t(p.m * p.k), 2.0F), b(std::size_t(p.n * p.k), 0.5F);
  const Stream stream = device->create_stream();
  EXPECT_THROW(device->capture(stream, [&] { matmul.pack_b(p, b.data(), p.k, 0, stream); }), Error);
  const PackedOperand packed = matmul.pack_b(p, b.data(), p.k);
  std::vector<float> c(std::size_t(p.m * p.n));
  const auto graph = device->capture(stream, [&] {
    matmul(layout_of(p), p.m, p.n, p.k, 1, a.data(), p.k, packed, 0, c.data(), p.n, stream);
  });
  EXPECT_EQ(c[0], 0);
  graph->launch(stream);
  EXPECT_EQ(c[0], 33);
  device->destroy_stream(stream);
}

}  // namespace
}  // namespace tilewise::packed_host_test
