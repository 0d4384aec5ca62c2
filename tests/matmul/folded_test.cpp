// Batches with a shared operand that are one product.
#include "matmul/request.hpp"

#include "tests/matmul/matmul_fixture.hpp"
#include "tilewise/error.hpp"

namespace tilewise::folded_test {
namespace {

Problem batch_of(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                 std::int64_t batch = 4) {
  return typed_problem(layout, m, n, k, DType::f32, DType::f32, MathMode::strict, batch);
}

/// Matrices of A and C are below each other, with gaps in the rows.
Call stacked(const Problem& p) {
  Call call;
  call.lda = min_lda(p) + 3, call.ldb = min_ldb(p) + 1, call.ldc = p.n + 2;
  call.stride_a = p.m * call.lda, call.stride_b = 0, call.stride_c = p.m * call.ldc;
  return call;
}

/// The product that the batch is folded into; none for other batches.
std::optional<Problem> product_of(const Problem& batch, const Call& call) {
  return Normalized(batch, call).request.product;
}

TEST(FoldedBatch, RowsOfASharedB) {
  for (const Layout layout : {Layout::nn, Layout::nt}) {
    const Problem batch = batch_of(layout, 6, 5, 7);
    const Normalized folded(batch, stacked(batch));
    ASSERT_TRUE(folded.request.product);
    EXPECT_EQ(folded.request.product->m, 24);
    EXPECT_EQ(folded.request.product->n, 5);
    EXPECT_EQ(folded.request.product->batch, 1);
    EXPECT_EQ(folded.of_product->lda, 10);
    EXPECT_EQ(folded.of_product->ldc, 7);
  }
}

TEST(FoldedBatch, TransposedMatricesLieSideBySide) {
  const Problem batch = batch_of(Layout::tn, 6, 5, 7);
  Call call = stacked(batch);
  EXPECT_FALSE(product_of(batch, call)) << "below each other they are no transposed A";
  call.lda = 24, call.stride_a = 6;
  ASSERT_TRUE(product_of(batch, call));
  EXPECT_EQ(Normalized(batch, call).of_product->lda, 24);
  call.lda = 23;
  EXPECT_FALSE(product_of(batch, call)) << "their rows overlap";
}

TEST(FoldedBatch, OneRowEachAtAnyDistance) {
  const Problem batch = batch_of(Layout::nn, 1, 5, 7);
  Call call = stacked(batch);
  call.lda = 7, call.stride_a = 100, call.ldc = 5, call.stride_c = 60;
  const Normalized folded(batch, call);
  ASSERT_TRUE(folded.request.product);
  EXPECT_EQ(folded.of_product->lda, 100);
  EXPECT_EQ(folded.of_product->ldc, 60);
  EXPECT_EQ(folded.request.product->m, 4);
}

TEST(FoldedBatch, ColumnsOfASharedA) {
  const Problem batch = batch_of(Layout::nt, 6, 5, 7);
  Call call;
  call.lda = 7, call.ldb = 9, call.ldc = 20;
  call.stride_a = 0, call.stride_b = 45, call.stride_c = 5;
  const std::optional<Problem> product = product_of(batch, call);
  ASSERT_TRUE(product);
  EXPECT_EQ(product->n, 20);
  EXPECT_EQ(product->m, 6);
  call.ldc = 19;
  EXPECT_FALSE(product_of(batch, call));
}

TEST(FoldedBatch, OtherBatchesStay) {
  const Problem batch = batch_of(Layout::nn, 6, 5, 7);
  Call call = stacked(batch);
  call.stride_a += 1;
  EXPECT_FALSE(product_of(batch, call)) << "a gap between matrices of A";
  call = stacked(batch);
  call.stride_c += 1;
  EXPECT_FALSE(product_of(batch, call)) << "a gap between matrices of C";
  call = stacked(batch);
  call.stride_b = 35;
  EXPECT_FALSE(product_of(batch, call)) << "a B for each product";
  Problem one = batch;
  one.batch = 1;
  EXPECT_FALSE(product_of(one, stacked(one)));
  Problem by_pointers = batch;
  by_pointers.pointers = true;
  EXPECT_FALSE(product_of(by_pointers, stacked(batch)));
  Problem huge = batch;
  huge.m = std::int64_t{1} << 60, huge.batch = 32;
  EXPECT_FALSE(product_of(huge, stacked(batch)));
}

/// Counts launches by BATCHED, for a batch of 4 products of 3x5x7.
struct FoldedServing : MatmulTest {
  FoldedServing() {
    device->on_launch = [this](const KernelSpec& kernel, const LaunchShape& shape,
                               const void* arguments, Stream stream) {
      const bool batched = define_of(kernel, "BATCHED");
      ++(batched ? batches : products);
      if (!batched) fake_product(kernel, shape, arguments, stream);
    };
  }
  void multiply(Matmul& matmul) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5);
    matmul.batched(Layout::nn, 3, 5, 7, 1.0F, a.data(), 7, 21, b.data(), 5, 0, 0.0F, c.data(), 5,
                   15, 4);
  }
  const Problem batch = batch_of(Layout::nn, 3, 5, 7);
  const Problem product = typed_problem<float, float>(Layout::nn, 12, 5, 7);
  std::vector<float> a = std::vector<float>(84), b = std::vector<float>(35),
                     c = std::vector<float>(60, -1);
  int batches = 0, products = 0;
};

TEST_F(FoldedServing, ServesOneProduct) {
  Matmul matmul = make_matmul(std::move(parts));
  for (int i = 0; i < 3; ++i) multiply(matmul);
  EXPECT_EQ(batches, 0);
  EXPECT_EQ(products, 3);
  for (int row = 0; row < 12; ++row)
    for (int column = 0; column < 5; ++column) {
      float sum = 0;
      for (int k = 0; k < 7; ++k)
        sum +=
            a[static_cast<std::size_t>(row * 7 + k)] * b[static_cast<std::size_t>(k * 5 + column)];
      ASSERT_EQ(c[static_cast<std::size_t>(row * 5 + column)], sum) << row << ", " << column;
    }
}

TEST_F(FoldedServing, ARecordOfTheBatchComesBeforeAPrediction) {
  Database database = Database::in_memory();
  store(database, batch, "tiled");
  parts.database = std::move(database);
  Matmul matmul = make_matmul(std::move(parts));
  multiply(matmul);
  multiply(matmul);
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(products, 0);
}

TEST_F(FoldedServing, ARecordOfTheProductComesFirst) {
  Database database = Database::in_memory();
  store(database, batch, "tiled");
  store(database, product, "tiled");
  parts.database = std::move(database);
  Matmul matmul = make_matmul(std::move(parts));
  multiply(matmul);
  EXPECT_EQ(batches, 0);
  EXPECT_EQ(products, 1);
}

TEST_F(FoldedServing, WhatIsTunedServesWhereAMissIsAnError) {
  Database database = Database::in_memory();
  store(database, batch, "tiled");
  parts.database = std::move(database);
  parts.on_miss = OnMiss::error;
  Matmul matmul = make_matmul(std::move(parts));
  matmul.prepare(batch);
  device->captured.insert(Stream());
  multiply(matmul);
  device->captured.clear();
  multiply(matmul);
  EXPECT_EQ(batches, 2);
}

TEST_F(FoldedServing, WhereNothingCompilesTheStoredFormServes) {
  Problem stored = batch;
  stored.batch = 8;  // its kernel serves the batch of 4, but no single product
  Database database = Database::in_memory();
  store(database, stored, "tiled");
  parts.database = std::move(database);
  parts.compile_missing = false;
  parts.load_compiler = nullptr;
  Matmul matmul = make_matmul(std::move(parts));
  multiply(matmul);
  EXPECT_EQ(batches, 1);
  EXPECT_EQ(products, 0);
}

TEST_F(FoldedServing, ABatchByPointersIsTunedAsTheBatchIs) {
  Problem tuned = batch;
  set_alignment(tuned, {4, 4, 4});
  Database database = Database::in_memory();
  store(database, tuned, "tiled");
  parts.database = std::move(database);
  parts.on_miss = OnMiss::error;
  Matmul matmul = make_matmul(std::move(parts));
  const float* as[4] = {};
  const float* bs[4] = {};
  float* cs[4] = {};
  EXPECT_NO_THROW(matmul.batched(Layout::nn, 3, 5, 7, 1.0F, as, 7, bs, 5, 0.0F, cs, 5, 4, nullptr));
  EXPECT_THROW(matmul.batched(Layout::nn, 4, 5, 7, 1.0F, as, 7, bs, 5, 0.0F, cs, 5, 4, nullptr),
               Error);
}

TEST_F(FoldedServing, InACaptureWhatIsPreparedServes) {
  Matmul matmul = make_matmul(std::move(parts));
  device->captured.insert(Stream());
  EXPECT_THROW(multiply(matmul), Error);
  device->captured.clear();
  matmul.prepare(batch);
  device->captured.insert(Stream());
  multiply(matmul);
  EXPECT_EQ(batches, 1) << "the product was not prepared";
  device->captured.clear();
  matmul.prepare(product);
  device->captured.insert(Stream());
  multiply(matmul);
  EXPECT_EQ(products, 1);
}

}  // namespace
}  // namespace tilewise::folded_test
