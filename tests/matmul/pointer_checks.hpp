#pragma once
// Batches by pointers, and batches that are one product, for every machine.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/matmul/served_checks.hpp"

namespace tilewise::test {

class BatchesServed : public Served {
 protected:
  using Served::Served;

  /// Addresses of the matrices that begin `stride` elements apart, those of product `order[i]`
  /// first.
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

  /// Products in another order than their matrices lie in; `extra` elements between rows.
  void check_by_pointers(Matmul& matmul, Problem problem, std::int64_t extra) {
    WholeNumbers job(problem, extra, 11);
    problem.pointers = true;
    problem.alignment = {bytes_of(problem.a), bytes_of(problem.b), bytes_of(problem.c)};
    std::vector<std::int64_t> order(static_cast<std::size_t>(problem.batch));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    const DeviceBuffer as = pointers(a, problem.a, job.stride_a, order);
    const DeviceBuffer bs = pointers(b, problem.b, 0, order);
    const DeviceBuffer cs = pointers(c, problem.c, job.stride_c, order);
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
    for (const ProductKind& kind : product_kinds()) {
      const Layout layout = kLayouts[kinds++ % 4];
      const Problem problem =
          typed_problem(layout, 19, 23, 40, kind.operand, kind.c, kind.math, batch);
      if (is_unsupported(matmul, problem)) continue;
      check_by_pointers(matmul, problem, kinds % 3);
    }
  }

  /// Every template's default configuration, as the winner of the batch with strides.
  void check_templates_by_pointers() {
    for (const KernelTemplate& kernel : catalog())
      for (const DType type : {DType::f32, DType::bf16})
        for (const Layout layout : kLayouts) {
          Problem problem = typed_problem(layout, 40, 24, 48, type, type, MathMode::strict, 5);
          if (!kernel.supports(problem, device->info())) continue;
          Problem by_pointers = problem;
          by_pointers.pointers = true;
          const Configuration configuration =
              kernel.default_configuration(by_pointers, device->info());
          if (!rejection(kernel, problem, configuration, device->info()).empty()) continue;
          Matmul matmul = with_winner(problem, {kernel.name, configuration});
          ASSERT_EQ(matmul.explain(by_pointers).kernel_template, kernel.name);
          check_by_pointers(matmul, problem, 0);
        }
  }

  /// A shared B (columns: a shared A), matrices side by side or below each other.
  void check_folded(const ProductKind& kind, Layout layout) {
    Matmul matmul(options);
    const Problem problem = typed_problem(layout, 6, 5, 16, kind.operand, kind.c, kind.math, 7);
    if (is_unsupported(matmul, problem)) return;
    for (const std::int64_t m : {std::int64_t{6}, std::int64_t{1}}) {
      Problem rows = problem;
      rows.m = m;
      check_by_strides(matmul, rows);
    }
  }

 private:
  void check_by_strides(Matmul& matmul, const Problem& problem) {
    WholeNumbers job(problem, 0, 5);
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    const Call call = job.call(a.data(), b.data(), c.data());
    matmul(problem, call);
    device->synchronize(nullptr);
    device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem);
  }
};

}  // namespace tilewise::test
