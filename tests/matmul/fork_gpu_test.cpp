// fork() with a GPU in use: in the child, each call is an error.
#include <gmock/gmock.h>

#include "device/cuda/cuda.hpp"
#include "tests/support/fork.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::fork_gpu_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ForkBesideAGpu, TheParentsMatmulAndANewOneAreErrorsInTheChild) {
  MatmulOptions options;
  options.database = "/nowhere/none.db";
  options.warn = [](const std::string&) {};
  std::optional<Matmul> multiply;
  try {
    multiply.emplace(options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<float> a(64, 2.0F), c(64);
  const auto product = [&](Matmul& by) {
    by.host(Layout::nn, 8, 8, 8, 1.0F, a.data(), 8, a.data(), 8, 0.0F, c.data(), 8);
    return c.back();
  };
  ASSERT_EQ(product(*multiply), 32.0F);
  EXPECT_THAT(said_by_child([&] { return error_of([&] { product(*multiply); }); }),
              AllOf(StartsWith("device: "), HasSubstr("fork()")));
  EXPECT_THAT(said_by_child([&] { return error_of([&] { Matmul own(options); }); }),
              AllOf(StartsWith("device: "), HasSubstr("fork()")));
  EXPECT_THAT(said_by_child([&] {
                multiply.reset();
                return std::string("destroyed");
              }),
              "destroyed");
  EXPECT_EQ(product(*multiply), 32.0F) << "the parent goes on";
}

}  // namespace
}  // namespace tilewise::fork_gpu_test
