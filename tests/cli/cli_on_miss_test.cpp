// OnMiss::tune with the real program on the CPU.
#include <gmock/gmock.h>

#include <thread>

#include "program.hpp"
#include "tilewise/matmul.hpp"

namespace cli_test::on_miss_test {
namespace {

using namespace tilewise;

class OnMissTune : public ProgramTest {
 protected:
  OnMissTune() {
    options.device = "host";
    options.database = database();
    options.on_miss = OnMiss::tune;
    // The number of evaluations ends the search, even on a slow machine.
    options.tune_seconds = 300;
    options.autotune = file("autotune").string();
    write(options.autotune,
          std::string("#!/bin/sh\nexec ") + TILEWISE_AUTOTUNE + " \"$@\" --max-evaluations 3\n");
    fs::permissions(options.autotune, fs::perms::owner_all);
    options.warn = [this](const std::string& line) { warnings.push_back(line); };
  }

  static void expect_product(Matmul& multiply, std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::vector<float> a(static_cast<std::size_t>(m * k), 1);
    const std::vector<float> b(static_cast<std::size_t>(k * n), 2);
    std::vector<float> c(static_cast<std::size_t>(m * n), -1);
    multiply(Layout::nn, m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
    EXPECT_THAT(c, testing::Each(static_cast<float>(2 * k)));
  }

  MatmulOptions options;
  std::vector<std::string> warnings;
};

TEST_F(OnMissTune, TheFirstProductIsTunedForAllThatFollow) {
  const Problem problem = typed_problem<float, float>(Layout::nn, 24, 16, 8);
  {
    Matmul multiply(options);
    EXPECT_EQ(multiply.explain(problem).kind, MatchKind::default_);
    expect_product(multiply, 24, 16, 8);
    EXPECT_EQ(multiply.explain(problem).kind, MatchKind::exact);
  }
  options.on_miss = OnMiss::error;
  options.compile_missing = false;
  Matmul second(options);
  expect_product(second, 24, 16, 8);
  EXPECT_THAT(warnings, testing::IsEmpty());
}

TEST_F(OnMissTune, TwoThatMissOneProblemAreBothServed) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([this] {
      MatmulOptions own = options;
      own.warn = [](const std::string& line) { ADD_FAILURE() << line; };
      Matmul multiply(own);
      expect_product(multiply, 16, 16, 16);
      EXPECT_EQ(multiply.explain(typed_problem<float, float>(Layout::nn, 16, 16, 16)).kind,
                MatchKind::exact);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(OnMissTune, ASearchThatCannotRunIsAWarningWithItsReason) {
  setenv("TILEWISE_CXX", "/no/such/compiler", 1);
  Matmul multiply(options);
  std::string reason;
  try {
    expect_product(multiply, 16, 8, 8);
  } catch (const Error& error) {  // nothing is stored, and nothing compiles
    reason = error.what();
  }
  unsetenv("TILEWISE_CXX");
  EXPECT_THAT(reason, testing::HasSubstr("TILEWISE_CXX"));
  ASSERT_THAT(warnings, testing::SizeIs(1));
  EXPECT_THAT(warnings.front(), testing::AllOf(testing::HasSubstr("16x8x8"),
                                               testing::HasSubstr("there is no compiler")));
}

}  // namespace
}  // namespace cli_test::on_miss_test
