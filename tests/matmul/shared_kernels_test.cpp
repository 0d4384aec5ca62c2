#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/matmul/matmul_fixture.hpp"
#include "tilewise/error.hpp"

namespace tilewise::shared_kernels_test {
namespace {

using testing::IsEmpty;

class SharedKernels : public MatmulTest {};

TEST_F(SharedKernels, SizesOfOneConfigurationShareAKernel) {
  Matmul multiply = make_matmul(std::move(parts));
  for (std::int64_t m = 1; m <= 100; ++m) multiply.prepare(problem_of(m, 8, 8));
  EXPECT_EQ(device->loads, 1);
  EXPECT_EQ(compiles, 1);
}

TEST_F(SharedKernels, SizesNearAWinnerOfOneSizeAreNotCompiledOneByOne) {
  parts.database = Database::in_memory();
  store(*parts.database, problem_of(32, 32, 32), "small");
  Matmul multiply = make_matmul(std::move(parts));
  for (std::int64_t m = 1; m <= 64; ++m) multiply.prepare(problem_of(m, 32, 32));
  EXPECT_EQ(compiles, 1) << "the default of all sizes; the winner's image is stored";
  EXPECT_EQ(device->loads, 2);
  EXPECT_EQ(multiply.explain(problem_of(32, 32, 32)).kind, MatchKind::exact);
}

TEST_F(SharedKernels, SizesBesideASpecialisedWinnerShareOneGeneralKernel) {
  parts.database = Database::in_memory();
  const Problem tuned = problem_of(64, 64, 64);
  Candidate constant = candidate(tuned, "simt");
  constant.configuration.set("SPECIALIZE_SIZE", 1);
  store(*parts.database, tuned, constant, true);
  Matmul multiply = make_matmul(std::move(parts));
  for (std::int64_t m = 1; m <= 100; ++m) multiply.prepare(problem_of(m, 64, 64));
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(device->loads, 2) << "the winner's, and the general one";
  EXPECT_EQ(multiply.explain(tuned).kind, MatchKind::exact);
  EXPECT_EQ(multiply.explain(problem_of(65, 64, 64)).kind, MatchKind::predicted);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(SharedKernels, AKernelThatIsNotThereLeavesThoseOfOtherLayoutsInPlace) {
  parts.database = Database::in_memory();
  parts.load_compiler = [] { return nullptr; };
  const Problem nn = problem_of(64, 64, 64), tt = problem_of(64, 64, 64, Layout::tt);
  const Candidate same = candidate(nn, "naive");
  store(*parts.database, nn, same, false);
  store(*parts.database, tt, same, true);
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_THROW(multiply.prepare(nn), Error) << "neither an image nor a compiler";
  EXPECT_NO_THROW(multiply.prepare(tt));
  EXPECT_EQ(multiply.explain(tt).kind, MatchKind::exact);
}

}  // namespace
}  // namespace tilewise::shared_kernels_test
