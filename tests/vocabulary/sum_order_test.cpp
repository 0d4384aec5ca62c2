// Orders of sums as text, and as a part of problems.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::sum_order_test {
namespace {

using Arithmetic = SumOrder::Arithmetic;

TEST(SumOrderText, SaysEveryPartAndIsReadBack) {
  const std::pair<SumOrder, std::string> cases[] = {
      {{.arithmetic = Arithmetic::exact}, "exact"},
      {{}, "fused"},
      {{.arithmetic = Arithmetic::tensor, .together = 16}, "tensor16"},
      {{.arithmetic = Arithmetic::fp8_by_wgmma, .together = 32, .promoted = 128},
       "fp8_by_wgmma32+promoted128"},
      {{.arithmetic = Arithmetic::fp8_by_mma, .together = 16}, "fp8_by_mma16"},
      {{.arithmetic = Arithmetic::f32x3_by_mma, .together = 8}, "f32x3_by_mma8"},
      {{.arithmetic = Arithmetic::f32x3_by_wgmma, .together = 8}, "f32x3_by_wgmma8"},
      {{.arithmetic = Arithmetic::f32x3_swapped, .together = 8}, "f32x3_swapped8"},
      {{.slices = 2, .slice = 8, .lane_vector = 4, .part = std::int64_t{1} << 33, .rows = 4},
       "fused+slices2x8+lanes4+parts8589934592+rows4"},
      {{.slice = 64, .lane_vector = 2}, "fused+slices1x64+lanes2"},
  };
  for (const auto& [order, text] : cases) {
    EXPECT_EQ(to_string(order), text);
    EXPECT_EQ(parse_sum_order(text), order) << text;
  }
}

TEST(SumOrderText, RefusesEveryOtherText) {
  for (const char* text : {"",
                           "kept",
                           "Fused",
                           "fused ",
                           "fused+",
                           "tensor",
                           "tensor0",
                           "tensor-1",
                           "tensor16+rows1",
                           "tensor016",
                           "fused+parts0",
                           "fused+parts512+rows3",
                           "fused+parts512+rows300",
                           "fused+rows4+parts512",
                           "fused+promoted",
                           "exact+parts",
                           "fused+slices2",
                           "fused+slices2x",
                           "fused+parts99999999999999999999",
                           "tensor16,parts512"})
    EXPECT_THROW((void)parse_sum_order(text), Error) << text;
  try {
    (void)parse_sum_order("ascending");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("\"ascending\""), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("tensor16"), std::string::npos) << error.what();
  }
}

TEST(SumOrderText, HasOneCopyOfEachOrder) {
  Problem x, y;
  set_order(x, "tensor16+parts512");
  set_order(y, "tensor16+parts512");
  EXPECT_EQ(x, y);
  EXPECT_EQ(std::hash<Problem>{}(x), std::hash<Problem>{}(y));
  set_order(y, "tensor16+parts1024");
  EXPECT_NE(x, y);
  set_order(y, "");
  EXPECT_EQ(y, Problem{});
}

TEST(ProblemInAnOrder, MayLeaveItToTheDatabase) {
  Problem problem;
  EXPECT_EQ(order_text(problem), "");
  set_invariant(problem);
  EXPECT_EQ(problem.order, kept_order());
  EXPECT_EQ(order_text(problem), "kept");
  Problem by_text;
  set_order(by_text, "kept");
  EXPECT_EQ(by_text, problem);
  // No order of a plan is taken for it.
  EXPECT_NE(*kept_order(), SumOrder{.arithmetic = Arithmetic::exact});
  set_invariant(problem, false);
  EXPECT_EQ(problem, Problem{});
}

TEST(ProblemInAnOrder, IsReadBackFromItsVariantAndItsJson) {
  for (const char* order : {"", "tensor16", "fused+parts512+rows4"})
    for (const char* epilogue : {"", "relu(acc + bias[j])"}) {
      Problem problem;
      problem.m = 3, problem.n = 4, problem.k = 5;
      set_order(problem, order);
      if (*epilogue) set_epilogue(problem, Epilogue(epilogue));
      Problem other = problem;
      set_order(other, "fused");
      set_variant(other, variant_text(problem));
      EXPECT_EQ(other, problem) << variant_text(problem);
      EXPECT_EQ(problem_from_json(to_json(problem)), problem) << to_json(problem);
    }
  Problem problem;
  EXPECT_EQ(variant_text(problem), "");
  set_order(problem, "tensor16");
  EXPECT_EQ(variant_text(problem), "order tensor16");
  EXPECT_NE(to_string(problem).find(" order tensor16"), std::string::npos);
  for (const char* variant : {"order", "order ", "order kept", "order x", "tensor16",
                              "order fused; relu", "epilogue acc; order fused"})
    EXPECT_THROW(set_variant(problem, variant), Error) << variant;
}

TEST(ProblemInAnOrder, HasOneKeyForAllRowsAndBatches) {
  Problem one = typed_problem(Layout::nt, 5, 1023, 4095, DType::bf16, DType::bf16);
  Problem other =
      typed_problem(Layout::tt, 4096, 1023, 4095, DType::bf16, DType::bf16, MathMode::strict, 7);
  other.pointers = true;
  set_alignment(other, {2, 4, 2});
  set_invariant(other);
  EXPECT_EQ(order_key(one), order_key(other));
  EXPECT_EQ(order_key(one), order_key(order_key(one)));
  for (Problem different : {typed_problem(Layout::nn, 5, 1023, 4095, DType::bf16, DType::bf16),
                            typed_problem(Layout::nt, 5, 1024, 4095, DType::bf16, DType::bf16),
                            typed_problem(Layout::nt, 5, 1023, 4096, DType::bf16, DType::bf16),
                            typed_problem(Layout::nt, 5, 1023, 4095, DType::bf16, DType::f32)})
    EXPECT_NE(order_key(one), order_key(different)) << to_string(different);
  Problem with_epilogue = one;
  set_epilogue(with_epilogue, Epilogue("relu(acc)"));
  EXPECT_NE(order_key(one), order_key(with_epilogue));
}

}  // namespace
}  // namespace tilewise::sum_order_test
