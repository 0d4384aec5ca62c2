// Grouped products on the CPU executor.
#include <cstring>

#include "tests/matmul/grouped_checks.hpp"
#include "tilewise/matmul.h"
#include "vocabulary/sum_order.hpp"

namespace tilewise::grouped_host_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct GroupedOnTheCpu : test::GroupedTest {
  GroupedOnTheCpu() : GroupedTest("host") {}
};
struct HopperGroupedOnTheCpu : test::GroupedTest {
  HopperGroupedOnTheCpu() : GroupedTest("host:sm_90a") {}
};

// Two products: of row 0 by {10, 20}, of rows 1 and 2 by {100, 200}; row 3 has none.
constexpr float kA[] = {1, 2, 3, 4}, kB[] = {10, 20, 100, 200};

TEST_F(GroupedOnTheCpu, RowsOneAfterAnother) {
  Matmul matmul(options);
  const std::int32_t ends[] = {1, 3};
  float c[] = {-1, -1, -1, -1, -1, -1, -1, -1};
  matmul.grouped(Layout::nn, 4, 2, 1, 1.0F, kA, 1, kB, 2, 2, 0.0F, c, 2, ends, 2);
  EXPECT_THAT(c, ElementsAre(10, 20, 200, 400, 300, 600, -1, -1));
}

TEST_F(GroupedOnTheCpu, CountsOfRows) {
  Matmul matmul(options);
  Problem problem = typed_problem<float, float>(Layout::nn, 2, 2, 1, MathMode::strict, 2);
  problem.grouping = Grouping::counts;
  const std::int32_t counts[] = {1, 2};
  float c[] = {-1, -1, -1, -1, -1, -1, -1, -1};
  Call call;
  call.a = kA, call.b = kB, call.c = c;
  call.lda = 1, call.ldb = call.ldc = 2;
  call.stride_a = call.stride_b = 2, call.stride_c = 4;
  call.group_rows = counts;
  matmul(problem, call);
  EXPECT_THAT(c, ElementsAre(10, 20, -1, -1, 300, 600, 400, 800));
}

TEST_F(GroupedOnTheCpu, DifferentDepths) {
  Matmul matmul(options);
  Problem problem = typed_problem<float, float>(Layout::tn, 1, 2, 3, MathMode::strict, 3);
  problem.grouping = Grouping::depth;
  // A and B have a row for each step of k: product 0 has two, product 1 none, product 2 one.
  const float a[] = {1, 2, 3}, b[] = {10, 20, 100, 200, 1000, 2000};
  const std::int32_t ends[] = {2, 2, 3};
  float c[] = {-1, -1, -1, -1, -1, -1};
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = 1, call.ldb = call.ldc = 2;
  call.stride_c = 2;
  call.group_rows = ends;
  matmul(problem, call);
  EXPECT_THAT(c, ElementsAre(210, 420, 0, 0, 3000, 6000));
}

TEST_F(GroupedOnTheCpu, InC) {
  tilewise_options given = TILEWISE_OPTIONS_INIT;
  given.device = "host";
  given.database = options.database.c_str();
  tilewise_matmul* matmul = nullptr;
  ASSERT_EQ(tilewise_create(&given, &matmul), TILEWISE_OK) << tilewise_last_error();
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = 4, problem.n = 2, problem.k = 1, problem.batch = 2;
  problem.grouping = TILEWISE_ROWS;
  tilewise_call call = TILEWISE_CALL_INIT;
  const std::int32_t ends[] = {1, 3};
  float c[] = {-1, -1, -1, -1, -1, -1, -1, -1};
  call.a = kA, call.b = kB, call.c = c;
  call.lda = 1, call.ldb = call.ldc = 2;
  call.stride_b = 2;
  EXPECT_EQ(tilewise_multiply(matmul, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("group_rows is a null pointer"));
  call.group_rows = ends;
  EXPECT_EQ(tilewise_multiply(matmul, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_THAT(c, ElementsAre(10, 20, 200, 400, 300, 600, -1, -1));
  problem.grouping = static_cast<tilewise_grouping>(4);
  EXPECT_EQ(tilewise_multiply(matmul, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("grouping = 4"));
  tilewise_destroy(matmul);
}

TEST_F(GroupedOnTheCpu, EveryKind) { check_every_kind(40, 17, 24, 5); }
TEST_F(GroupedOnTheCpu, MoreProductsThanAWarpHasLanes) {
  Matmul matmul(options);
  for (const std::int64_t groups : {1, 31, 32, 33, 129, 300}) {
    for (const Grouping grouping : {Grouping::rows, Grouping::counts})
      check(matmul, problem_of(product_kinds()[0], Layout::nn, grouping, 20, 9, 5, groups), 1);
    check(matmul, problem_of(product_kinds()[0], Layout::tn, Grouping::depth, 5, 9, 50, groups), 1);
  }
}
TEST_F(HopperGroupedOnTheCpu, EveryKind) { check_every_kind(70, 32, 40, 5); }
TEST_F(HopperGroupedOnTheCpu, RandomWinnersOfWgmma) {
  check_random_winners("wgmma", DType::bf16, 8, 40);
  EXPECT_GE(random_winners_, 5);
}
TEST_F(HopperGroupedOnTheCpu, RandomWinnersOfMma) { check_random_winners("mma", DType::f16, 6, 9); }
TEST_F(HopperGroupedOnTheCpu, RandomWinnersOfSimt) {
  check_random_winners("simt", DType::f32, 6, 34);
  EXPECT_GE(random_winners_, 5);
}

TEST_F(GroupedOnTheCpu, WithoutASumRowsAreScaled) {
  Matmul matmul(options);
  Problem problem = problem_of(product_kinds()[0], Layout::nn, Grouping::rows, 12, 7, 0, 3);
  check(matmul, problem, 0, "k = 0");
  problem.k = 6;
  Job job = job_of(problem, 0);
  job.alpha = 0;
  matmul(problem, bound(job).call);
  expect_right(job, "alpha = 0");
}

// A NaN in a step of k stays in its product, though tiles are loaded beyond it.
TEST_F(HopperGroupedOnTheCpu, StepsOfTheNextProductDoNotEnterTheSums) {
  for (const auto& [name, type] :
       {std::pair{"wgmma", DType::bf16}, {"mma", DType::bf16}, {"simt", DType::f32}}) {
    const Problem problem = problem_of(*find_product_kind(type, type, MathMode::strict), Layout::tn,
                                       Grouping::depth, 64, 64, 200, 4);
    std::filesystem::remove(options.database);
    const KernelTemplate& kernel = find_template(name);
    const auto candidate = default_for(kernel, problem, device->info());
    ASSERT_TRUE(candidate) << name;
    Matmul matmul = with_winner(problem, {name, *candidate});
    Job job = job_of(problem, 0);
    set_rows(job, {37, 37, 101, 200});
    for (std::int64_t column = 0; column < 64; ++column)
      for (auto& [bytes, ld] :
           {std::pair<Bytes*, std::int64_t>{&job.a, job.lda}, {&job.b, job.ldb}})
        from_double(type, std::numeric_limits<double>::quiet_NaN(),
                    bytes->data() + bytes_of(type, 37 * ld + column));
    job.on_a = on_device(job.a), job.on_b = on_device(job.b);
    job.beta = 0;
    matmul(problem, bound(job).call);
    const Bytes c = downloaded(job.on_c);
    for (std::int64_t product = 0; product < 4; ++product)
      for (std::int64_t i = 0; i < 64 * 64; ++i)
        ASSERT_EQ(std::isnan(to_double(type, c.data() + bytes_of(type, product * 64 * 64 + i))),
                  product == 2)
            << name << ", product " << product;
  }
}

TEST_F(HopperGroupedOnTheCpu, InvariantRowsHaveTheBitsOfAPlainProduct) {
  for (const Grouping grouping : {Grouping::rows, Grouping::counts}) {
    check_invariant_rows(DType::f32, grouping, 30, 24, 100);
    check_invariant_rows(DType::bf16, grouping, 70, 64, 136);
    check_invariant_rows(DType::f16, grouping, 70, 48, 72);
  }
}
// A plain product may have an order that no grouped one has.
TEST_F(GroupedOnTheCpu, TheOrderOfAPlainProductIsNotTheirs) {
  Problem grouped = problem_of(product_kinds()[0], Layout::nt, Grouping::rows, 30, 24, 1024, 3);
  Problem plain = typed_problem<float, float>(Layout::nt, 1, 24, 1024);
  set_invariant(grouped), set_invariant(plain);
  Database::open(options.database)
      .put(KeptOrder{order_key(plain), gpu_key(device->info()), "fused+parts512", ""});
  const Matmul matmul(options);
  EXPECT_EQ(matmul.kept_order(plain), "fused+parts512");
  EXPECT_EQ(matmul.kept_order(grouped), "fused");
}

TEST_F(GroupedOnTheCpu, OnlyFamiliesThatSaySoComputeThem) {
  EXPECT_FALSE(KernelTemplate().grouped);
  const Problem problem = problem_of(product_kinds()[0], Layout::nn, Grouping::rows, 4, 8, 8, 3);
  Problem batch = problem;
  batch.grouping = Grouping::none;
  for (const KernelTemplate& kernel : catalog())
    if (kernel.supports(batch, device->info())) {
      EXPECT_EQ(kernel.supports(problem, device->info()), kernel.grouped) << kernel.name;
    }
}

TEST_F(GroupedOnTheCpu, MoreProductsThanAnyTableHolds) {
  const KernelTemplate& wgmma = find_template("wgmma");
  Problem problem = problem_of(*find_product_kind(DType::bf16, DType::bf16, MathMode::strict),
                               Layout::nt, Grouping::rows, 64, 64, 64, std::int64_t{1} << 29);
  const DeviceInfo hopper = open_device("host:sm_90a")->info();
  EXPECT_FALSE(default_for(wgmma, problem, hopper));
  problem.batch = 4096;
  EXPECT_TRUE(default_for(wgmma, problem, hopper));
}

TEST_F(GroupedOnTheCpu, BadNumbersAreRefusedWhereTheHostSeesThem) {
  Matmul matmul(options);
  const auto message = [&](std::vector<std::int32_t> rows, Grouping grouping = Grouping::rows) {
    Job job = job_of(problem_of(product_kinds()[0], Layout::nn, grouping, 20, 4, 4, 3), 0);
    set_rows(job, std::move(rows));
    try {
      matmul(job.problem, bound(job).call);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_EQ(difference(DType::f32, downloaded(job.on_c), job.c), "");
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({3, 21, 21}), HasSubstr("group_rows[1] is 21; it is 0 to m = 20"));
  EXPECT_THAT(message({-1, 3, 20}), HasSubstr("group_rows[0] is -1"));
  EXPECT_THAT(message({8, 7, 20}), HasSubstr("group_rows[1] is 7, less than group_rows[0], 8"));
  EXPECT_EQ(message({8, 7, 20}, Grouping::counts), "");
  EXPECT_THAT(message({8, 7, 21}, Grouping::counts), HasSubstr("group_rows[2] is 21"));
}

TEST_F(GroupedOnTheCpu, WhatIsNotServedSaysWhy) {
  Matmul matmul(options);
  const Problem grouped = problem_of(product_kinds()[0], Layout::nn, Grouping::rows, 20, 4, 4, 3);
  const auto message = [&](const Problem& problem, bool host = false) {
    const Job job = job_of(grouped, 0);
    Bound made = bound(job);
    if (problem.epilogue) {
      made.operands = {{job.on_bias.data(), 4, 4, 0}};
      made.call.operands = made.operands;
    }
    try {
      if (host)
        matmul.host(problem, made.call);
      else
        matmul(problem, made.call);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Problem problem = grouped;
  problem.grouping = Grouping::none;
  EXPECT_THAT(message(problem), HasSubstr("the problem is not grouped"));
  EXPECT_THAT(message(grouped, true), HasSubstr("a grouped product on host pointers"));
  problem = grouped;
  problem.pointers = true;
  EXPECT_THAT(message(problem), HasSubstr("a grouped product by pointers"));
  problem = grouped;
  problem.grouping = Grouping::depth;
  EXPECT_THAT(message(problem), HasSubstr("grouped by depth in layout nn"));
  problem = grouped;
  problem.m = std::int64_t{1} << 31;
  EXPECT_THAT(message(problem), HasSubstr("at most 2^31 - 1"));
  problem = grouped;
  set_epilogue(problem, Epilogue("sums[j] = sum(acc); acc"));
  EXPECT_THAT(message(problem),
              AllOf(HasSubstr("the sum over rows"), HasSubstr("of a grouped product")));
}

}  // namespace
}  // namespace tilewise::grouped_host_test
