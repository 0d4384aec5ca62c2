// Which calls are passed through without a further check.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <vector>

#include "db/database.hpp"
#include "drop_in/decision.hpp"
#include "tests/drop_in/calls.hpp"

namespace tilewise::drop_in {
namespace {

/// Calls of all kinds and operations, with sizes up to 2^40. Their addresses are made up.
class AnyCall {
 public:
  Gemm operator()() {
    const Kind& kind = kKinds[draw(0, static_cast<int>(std::size(kKinds)) - 1)];
    const auto matrix = [&](int at, int type) {
      return Matrix{reinterpret_cast<const void*>((std::uint64_t{1} << 60) * at), type,
                    std::int64_t{1} << 41, 0};
    };
    return {.op_a = draw(0, 2),
            .op_b = draw(0, 2),
            .m = size(),
            .n = size(),
            .k = size(),
            .a = matrix(1, kind.operand),
            .b = matrix(2, kind.operand),
            .c = matrix(3, kind.result),
            .batch = draw(1, 5),
            .compute = kind.compute,
            .scalar = kind.scalar,
            .fast_sums = kind.fast_sums,
            .alpha = &one_,
            .beta = &one_};
  }

 private:
  int draw(int first, int last) { return std::uniform_int_distribution(first, last)(generator_); }
  std::int64_t size() { return (std::int64_t{1} << draw(0, draw(0, 1) ? 6 : 14)) + draw(0, 9); }

  std::mt19937 generator_{1};
  const float one_ = 1;
};

TEST(Products, HaveEachCallThatMakesOneOfThemAndNoOther) {
  AnyCall draw;
  int made = 0, others = 0;
  for (int i = 0; i < 4000; ++i) {
    const Gemm gemm = draw();
    Product product;
    if (product_of(gemm, kDefaultMath, product) != Why::none) continue;
    ++made;
    const Products products({product.problem});
    EXPECT_TRUE(products.may_have(gemm));
    const auto has = [&](auto change) {
      Gemm other = gemm;
      change(other);
      others += products.may_have(other);
    };
    has([](Gemm& g) { ++g.m; });
    has([](Gemm& g) { ++g.n; });
    has([](Gemm& g) { ++g.k; });
    has([](Gemm& g) { ++g.batch; });
    has([](Gemm& g) { g.op_a = g.op_a == kNotTransposed ? kTransposed : kNotTransposed; });
    has([](Gemm& g) { g.op_b = g.op_b == kNotTransposed ? kConjugate : kNotTransposed; });
    has([](Gemm& g) { g.a.type = g.a.type == kF16 ? kBf16 : kF16; });
    has([](Gemm& g) { g.c.type = g.c.type == kF64 ? kF32 : kF64; });
    has([](Gemm& g) { g.a.type = 99; });
  }
  EXPECT_GE(made, 1000);
  EXPECT_EQ(others, 0);
}

class ProductsToAnswer : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(file_);
    setenv("TILEWISE_DB", file_.c_str(), 1);
  }
  const std::filesystem::path file_ =  // tests run at once
      testing::TempDir() + "products_to_answer_" +
      testing::UnitTest::GetInstance()->current_test_info()->name() + ".db";
  std::optional<Database> database_;
  AnyCall draw_;
};

TEST_F(ProductsToAnswer, AreNoneWithoutADatabase) {
  const auto products = products_to_answer({}, database_);
  ASSERT_TRUE(products);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(products->may_have(draw_()));
  std::ofstream(file_).flush();
  EXPECT_TRUE(products_to_answer({}, database_)) << "a file that holds nothing";
}

TEST_F(ProductsToAnswer, AreAllWhereEachCountsOrOthersMayBeAnswered) {
  Settings predict, always, report, record, off;
  predict.predict = always.always = true;
  report.report = "1", record.record = "record";
  off.on = false;
  for (const Settings& settings : {predict, always, report, record})
    EXPECT_FALSE(products_to_answer(settings, database_));
  std::ofstream(file_) << "no database at all, but long enough to be looked at";
  EXPECT_FALSE(products_to_answer({}, database_)) << "the first product reports the error";
  EXPECT_TRUE(products_to_answer(off, database_));
}

}  // namespace
}  // namespace tilewise::drop_in
