// The options of `autotune tune` for a problem, as messages print them.
#include <gtest/gtest.h>

#include "tests/support/problems.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::tune_options_test {
namespace {

TEST(TuneOptions, SayWhatIsNotDefault) {
  Problem problem = test::make_problem(Layout::nn, 64, 32, 16);
  EXPECT_EQ(tune_options(problem), " --sizes 64x32x16");
  problem.math = MathMode::f32x3, problem.batch = 7;
  EXPECT_EQ(tune_options(problem), " --sizes 64x32x16 --math f32x3 --batch 7");
  problem = test::make_problem(Layout::tn, 64, 32, 16);
  set_types(problem, DType::e4m3, DType::bf16, MathMode::strict);
  EXPECT_EQ(tune_options(problem), " --sizes 64x32x16 --layout tn --dtype e4m3 --out bf16");
  set_types(problem, DType::i8, DType::i32, MathMode::strict);
  problem.a.alignment = 1;
  EXPECT_EQ(tune_options(problem), " --sizes 64x32x16 --layout tn --dtype i8 --align 1,16,16");
}

// A message quotes an epilogue for a shell; a program gets it without quotes.
TEST(TuneOptions, AnEpilogueIsOneWord) {
  Problem problem = test::make_problem(Layout::nn, 64, 32, 16);
  set_epilogue(problem, Epilogue("max(acc + r[i, j], -0.5)"));
  EXPECT_EQ(tune_options(problem), " --sizes 64x32x16 --epilogue 'max(-0.5,(p0[i,j]+acc))'");
  EXPECT_EQ(
      option_words(tune_options(problem)),
      (std::vector<std::string>{"--sizes", "64x32x16", "--epilogue", "max(-0.5,(p0[i,j]+acc))"}));
}

}  // namespace
}  // namespace tilewise::tune_options_test
