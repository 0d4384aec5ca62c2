// A table of calls and their requests.
#include "matmul/request.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "matmul/check_call.hpp"
#include "matmul/packed_contents.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::request_test {
namespace {

alignas(64) std::byte memory[64];

/// A problem and a call whose pointers, rows and strides allow an alignment of 16 bytes.
struct Asked {
  Problem problem;
  Call call;
  Asked(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1)
      : problem(typed_problem(layout, m, n, k, DType::f32, DType::f32, MathMode::tf32, batch)) {
    call.a = call.b = call.c = memory;
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
    if (batch == 1) return;
    call.stride_a = rows_a(problem) * call.lda;
    call.stride_b = rows_b(problem) * call.ldb;
    call.stride_c = m * call.ldc;
  }
  Normalized normal() const { return {problem, call}; }
  Request request() const { return normal().request; }
};

TEST(Request, OfAPlainCallIsItsProblem) {
  const Asked asked(Layout::nn, 8, 16, 32);
  const Request request = asked.request();
  EXPECT_EQ(request.problem, asked.problem);
  EXPECT_FALSE(request.product);
  EXPECT_FALSE(asked.normal().of_product);
  EXPECT_FALSE(request.far);
  EXPECT_EQ(request.packed_a, 0U);
  EXPECT_EQ(request.packed_b, 0U);
  EXPECT_EQ(request, Request(asked.problem));
}

TEST(Request, HasTheAlignmentOfTheCall) {
  Asked asked(Layout::nn, 8, 16, 32);
  set_alignment(asked.problem, {4, 4, 4});  // of the caller's problem: not looked at
  EXPECT_EQ(alignment_of(asked.request().problem), (Alignment{16, 16, 16}));
  asked.call.a = memory + 8;
  asked.call.ldb += 1;
  EXPECT_EQ(alignment_of(asked.request().problem), (Alignment{8, 4, 16}));
}

TEST(Request, WithoutProductsIsStrict) {
  Asked asked(Layout::nn, 8, 16, 0);
  EXPECT_EQ(asked.request().problem.math, MathMode::strict);
  asked.problem = Asked(Layout::nn, 8, 16, 32).problem;
  EXPECT_EQ(asked.request().problem.math, MathMode::tf32);
}

TEST(Request, WhoseStridesPassATensorMapIsFar) {
  Asked asked(Layout::nn, 8, 16, 32);
  asked.call.lda = kFarElements - 4;
  EXPECT_FALSE(asked.request().far);
  asked.call.lda = kFarElements;
  EXPECT_TRUE(asked.request().far);
  EXPECT_EQ(asked.request().problem.a.alignment, 4) << "one element";
  EXPECT_NE(asked.request(), Request(asked.request().problem));
}

TEST(Request, OfABatchThatSharesBIsAlsoAProduct) {
  Asked asked(Layout::nn, 8, 16, 32, 3);
  EXPECT_FALSE(asked.request().product) << "three matrices B";
  asked.call.stride_b = 0;
  const Normalized normal = asked.normal();
  ASSERT_TRUE(normal.request.product);
  EXPECT_EQ(normal.request.problem, asked.problem);
  EXPECT_EQ(*normal.request.product, Asked(Layout::nn, 24, 16, 32).problem);
  ASSERT_TRUE(normal.of_product);
  EXPECT_EQ(normal.of_product->stride_a, 0);
  EXPECT_EQ(normal.of_product->lda, 32);
  EXPECT_NE(normal.request, Request(asked.problem));
}

TEST(Request, OfABatchThatSharesAIsAProductWhereTheColumnsFollow) {
  Asked asked(Layout::nn, 8, 16, 32, 3);
  asked.call.stride_a = 0;
  EXPECT_FALSE(asked.request().product) << "matrices of C below each other";
  asked.call.ldb = asked.call.ldc = 48;
  asked.call.stride_b = asked.call.stride_c = 16;
  ASSERT_TRUE(asked.request().product);
  EXPECT_EQ(asked.request().product->n, 48);
}

TEST(Request, OfFarOrPackedBatchesIsNoProduct) {
  Asked asked(Layout::nn, 1, 16, 32, 3);
  asked.call.stride_b = 0;
  EXPECT_TRUE(asked.request().product);
  asked.call.stride_a = kFarElements;
  EXPECT_TRUE(asked.request().far);
  EXPECT_FALSE(asked.request().product);
}

TEST(Request, DiffersByThePackingOfEachOperand) {
  Asked asked(Layout::nn, 8, 16, 32, 3);
  asked.call.stride_b = 0;
  const auto packed = [](std::uint64_t key) {
    auto contents = std::make_unique<PackedOperand::Contents>();
    contents->packing_key = key;
    return PackedOperand(std::move(contents));
  };
  const PackedOperand one = packed(5), other = packed(7), without_copy = packed(0);
  asked.call.packed_b = &one;
  EXPECT_EQ(asked.request().packed_b, 5U);
  EXPECT_EQ(asked.request().packed_a, 0U);
  EXPECT_FALSE(asked.request().product) << "its pack is the batch's";
  const Request of_one = asked.request();
  asked.call.packed_b = &other;
  EXPECT_NE(asked.request(), of_one);
  asked.call.packed_b = &without_copy;
  EXPECT_EQ(asked.request().packed_b, 0U);
  asked.call.packed_b = nullptr;
  asked.call.packed_a = &one;
  EXPECT_EQ(asked.request().packed_a, 5U);
  EXPECT_NE(asked.request(), of_one);
}

TEST(Request, EqualOnesHaveOneHash) {
  const Asked asked(Layout::nt, 8, 16, 32);
  EXPECT_EQ(std::hash<Request>{}(asked.request()), std::hash<Request>{}(asked.request()));
}

}  // namespace
}  // namespace tilewise::request_test
