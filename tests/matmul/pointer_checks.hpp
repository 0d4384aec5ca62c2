#pragma once
// Batches by pointers, and batches that are one product, on every machine.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "matmul/request.hpp"
#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::test {

class BatchesServed : public Served {
 protected:
  using Served::Served;

  /// Addresses of the matrices that start `stride` elements apart; entry i is the matrix of product
  /// `order[i]`.
  DeviceBuffer pointers(const DeviceBuffer& data, DType type, std::int64_t stride,
                        const std::vector<std::int64_t>& order) {
    std::vector<std::byte*> addresses;
    for (const std::int64_t i : order)
      addresses.push_back(static_cast<std::byte*>(data.data()) + i * stride * bytes_of(type));
    const auto bytes = static_cast<std::int64_t>(addresses.size() * sizeof(std::byte*));
    DeviceBuffer buffer(*device, bytes);
    device->copy_to_device(buffer.data(), addresses.data(), bytes, nullptr);
    device->synchronize(nullptr);
    return buffer;
  }

  /// Checks products in another order than their matrices, with `extra` elements between rows.
  void check_by_pointers(Matmul& matmul, Problem problem, std::int64_t extra) {
    WholeNumbers job(problem, extra, 11);
    problem.pointers = true;
    set_alignment(problem,
                  {bytes_of(problem.a.type), bytes_of(problem.b.type), bytes_of(problem.c.type)});
    std::vector<std::int64_t> order(static_cast<std::size_t>(problem.batch));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    const DeviceBuffer as = pointers(a, problem.a.type, job.stride_a, order);
    const DeviceBuffer bs = pointers(b, problem.b.type, 0, order);
    const DeviceBuffer cs = pointers(c, problem.c.type, job.stride_c, order);
    Call call = job.call(as.data(), bs.data(), cs.data());
    call.stride_a = call.stride_b = call.stride_c = 0;
    matmul(problem, call);
    device->synchronize(nullptr);
    device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ", " << extra << " between rows";
  }

  void check_every_kind_by_pointers(int batch) {
    Matmul matmul(options);
    int kinds = 0;
    for (const ProductKind& kind : test::whole_byte_kinds()) {
      const Layout layout = kLayouts[kinds++ % 4];
      const Problem problem =
          typed_problem(layout, 19, 23, 40, kind.a, kind.b, kind.c, kind.math, batch);
      if (is_unsupported(matmul, problem)) continue;
      check_by_pointers(matmul, problem, kinds % 3);
    }
  }

  /// Checks every template's default configuration as the winner of the batch with strides.
  /// `layouts`: how many of the four, in turn.
  void check_templates_by_pointers(int layouts) {
    int turn = 0;
    for (const KernelTemplate& kernel : catalog())
      for (const DType type : {DType::f32, DType::bf16})
        for (int i = 0; i < layouts; ++i) {
          const Layout layout = kLayouts[turn++ % 4];
          Problem problem = typed_problem(layout, 40, 24, 48, type, type, MathMode::strict, 5);
          if (!kernel.supports(problem, device->info())) continue;
          Problem by_pointers = problem;
          by_pointers.pointers = true;
          const Configuration configuration =
              kernel.default_configuration(by_pointers, device->info());
          if (!rejection(kernel, problem, configuration, device->info()).empty()) continue;
          // Has its own database, because winners of other layouts would compete.
          options.database =
              (folder / (kernel.name + std::to_string(++databases_) + ".db")).string();
          Matmul matmul = with_winner(problem, {kernel.name, configuration});
          ASSERT_EQ(matmul.explain(by_pointers).kernel_template, kernel.name);
          check_by_pointers(matmul, problem, 0);
        }
  }

  /// With alpha = 0 and k = 0, the arrays of A and B are null pointers.
  void check_without_a_sum() {
    Matmul matmul(options);
    for (const DType type : {DType::f32, DType::bf16})
      for (const std::int64_t size : {std::int64_t{2}, std::int64_t{128}})
        for (const std::int64_t k : {std::int64_t{0}, size}) {
          Problem problem =
              typed_problem(Layout::nn, size, size, k, type, type, MathMode::strict, 2);
          problem.pointers = true;
          set_alignment(problem, {bytes_of(type), bytes_of(type), bytes_of(type)});
          Elements c(type, 2 * size * size, 3);
          const DeviceBuffer on_c = uploaded(c);
          const DeviceBuffer cs = pointers(on_c, type, size * size, {1, 0});
          Call call;
          call.c = cs.data();
          call.lda = std::max<std::int64_t>(k, 1), call.ldb = call.ldc = size;
          call.alpha = k == 0 ? 1 : 0, call.beta = 2;
          matmul(problem, call);
          device->synchronize(nullptr);
          device->copy_to_host(c.at(0), on_c.data(), c.bytes(), nullptr);
          device->synchronize(nullptr);
          for (std::int64_t i = 0; i < 2 * size * size; ++i)
            ASSERT_EQ(c.value(i), 6) << to_string(problem) << " at " << i;
        }
  }

  /// Checks every kind with a shared B, with the rows below each other.
  void check_folded(const ProductKind& kind, Layout layout) {
    if (bits_of(kind.b) < 8) return;  // `Job` has elements of whole bytes
    Matmul matmul(options);
    const Problem problem = typed_problem(layout, 6, 5, 16, kind.a, kind.b, kind.c, kind.math, 7);
    if (is_unsupported(matmul, problem)) return;
    for (const std::int64_t m : {std::int64_t{6}, std::int64_t{1}}) {
      Problem rows = problem;
      rows.m = m;
      check_by_strides(matmul, rows);
    }
  }

  /// Checks shared B and shared A in f32, in each layout, with matrices for which the batch is one
  /// product.
  void check_folded_placements() {
    Matmul matmul(options);
    for (const Layout layout : kLayouts)
      for (const bool shares_b : {true, false}) check_folded_placement(matmul, layout, shares_b);
  }

 private:
  int databases_ = 0;

  void check_folded_placement(Matmul& matmul, Layout layout, bool shares_b) {
    constexpr std::int64_t m = 6, n = 10, k = 12, count = 4;
    const bool ta = a_transposed(layout), tb = b_transposed(layout);
    Problem problem =
        typed_problem(layout, m, n, k, DType::f32, DType::f32, MathMode::strict, count);
    Call call;
    call.lda = ta ? (shares_b ? m * count : m) + 3 : k + 2;
    call.ldb = tb ? k + 1 : (shares_b ? n : n * count) + 2;
    call.ldc = (shares_b ? n : n * count) + 4;
    call.stride_a = !shares_b ? 0 : ta ? m : m * call.lda;
    call.stride_b = shares_b ? 0 : tb ? n * call.ldb : n;
    call.stride_c = shares_b ? m * call.ldc : n;
    call.alpha = 2, call.beta = -1;
    std::mt19937 random(7);
    const auto numbers = [&](std::int64_t size) {
      std::vector<float> made(static_cast<std::size_t>(size));
      for (float& x : made) x = static_cast<float>(static_cast<int>(random() % 7) - 3);
      return made;
    };
    const auto a = numbers(call.lda * (ta ? k : m * count)),
               b = numbers(call.ldb * (tb ? n * count : k));
    auto c = numbers(call.ldc * m * count);
    auto expected = c;
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t row = 0; row < m; ++row)
        for (std::int64_t column = 0; column < n; ++column) {
          float sum = 0;
          for (std::int64_t q = 0; q < k; ++q)
            sum += a[at(i * call.stride_a + (ta ? q * call.lda + row : row * call.lda + q))] *
                   b[at(i * call.stride_b + (tb ? column * call.ldb + q : q * call.ldb + column))];
          float& to = expected[at(i * call.stride_c + row * call.ldc + column)];
          to = 2 * sum - to;
        }
    const auto bytes = [](const std::vector<float>& x) {
      return static_cast<std::int64_t>(x.size() * sizeof(float));
    };
    const DeviceBuffer on_a(*device, bytes(a)), on_b(*device, bytes(b)), on_c(*device, bytes(c));
    device->copy_to_device(on_a.data(), a.data(), bytes(a), nullptr);
    device->copy_to_device(on_b.data(), b.data(), bytes(b), nullptr);
    device->copy_to_device(on_c.data(), c.data(), bytes(c), nullptr);
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    const std::string what =
        std::string(to_string(layout)) + (shares_b ? " with one B" : " with one A");
    EXPECT_TRUE(Normalized(problem, call).request.product) << what;
    matmul(problem, call);
    device->synchronize(nullptr);
    device->copy_to_host(c.data(), on_c.data(), bytes(c), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(c, expected) << what;
  }

  void check_by_strides(Matmul& matmul, const Problem& problem) {
    WholeNumbers job(problem, 0, 5);
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    const Call call = job.call(a.data(), b.data(), c.data());
    EXPECT_EQ(Normalized(problem, call).request.product.has_value(), !problem.a.transposed);
    matmul(problem, call);
    device->synchronize(nullptr);
    device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem);
  }
};

}  // namespace tilewise::test
