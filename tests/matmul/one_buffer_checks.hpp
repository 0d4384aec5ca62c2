#pragma once
// A, B and C next to each other in the rows of one buffer, on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/matmul/served_checks.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::test {

/// C = 2 C - A B of whole numbers, all three in one buffer with rows [A | B | C].
class OneBufferJob {
 public:
  /// `gap`: elements after C in each row.
  OneBufferJob(const Problem& problem, std::int64_t gap)
      : memory(problem.a.type, 0, 0), problem_(problem), random_(5) {
    const std::int64_t step = 16 / bytes_of(problem.a.type);
    const std::int64_t columns_a = problem.a.transposed ? problem.m : problem.k;
    const std::int64_t columns_b = problem.b.transposed ? problem.k : problem.n;
    at_b_ = round_up(columns_a, step);
    at_c_ = at_b_ + round_up(columns_b, step);
    ld_ = at_c_ + round_up(problem.n, step) + gap;
    const std::int64_t rows = std::max({rows_a(problem), rows_b(problem), problem.m});
    numbers_.assign(static_cast<std::size_t>(rows * ld_), 7);
    fill();
    memory = Elements(problem.a.type, rows * ld_, 0);
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      memory.set(static_cast<std::int64_t>(i), numbers_[i]);
    expect();
  }
  Elements memory;  ///< the buffer before the product

  Call call(void* buffer) const {
    const auto place = [&](std::int64_t at) {
      return static_cast<std::byte*>(buffer) + at * bytes_of(problem_.a.type);
    };
    Call call;
    call.a = place(0), call.b = place(at_b_), call.c = place(at_c_);
    call.lda = call.ldb = call.ldc = ld_;
    call.alpha = -1, call.beta = 2;
    return call;
  }
  /// The first wrong element of the whole buffer; -1 if there is none.
  std::int64_t first_wrong() {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (!memory.holds(static_cast<std::int64_t>(i), numbers_[i]))
        return static_cast<std::int64_t>(i);
    return -1;
  }

 private:
  int& a(std::int64_t i, std::int64_t q) {
    return numbers_[std::size_t(problem_.a.transposed ? q * ld_ + i : i * ld_ + q)];
  }
  int& b(std::int64_t q, std::int64_t j) {
    return numbers_[std::size_t(at_b_ + (problem_.b.transposed ? j * ld_ + q : q * ld_ + j))];
  }
  int& c(std::int64_t i, std::int64_t j) { return numbers_[std::size_t(at_c_ + i * ld_ + j)]; }
  /// Fills the buffer. A row of op(A) has at most four nonzeros, so |C| <= 8 afterwards.
  void fill() {
    for (std::int64_t i = 0; i < problem_.m; ++i) {
      for (std::int64_t q = 0; q < problem_.k; ++q) a(i, q) = 0;
      for (int count = 0; count < 4; ++count)
        a(i, std::int64_t(random_() % std::uint64_t(problem_.k))) = random_() % 2 ? 1 : -1;
      for (std::int64_t j = 0; j < problem_.n; ++j) c(i, j) = 2;
    }
    for (std::int64_t q = 0; q < problem_.k; ++q)
      for (std::int64_t j = 0; j < problem_.n; ++j) b(q, j) = int(random_() % 3) - 1;
  }
  void expect() {
    for (std::int64_t i = 0; i < problem_.m; ++i)
      for (std::int64_t j = 0; j < problem_.n; ++j) {
        int sum = 0;
        for (std::int64_t q = 0; q < problem_.k; ++q) sum += a(i, q) * b(q, j);
        c(i, j) = 4 - sum;
      }
  }

  const Problem problem_;
  std::mt19937 random_;
  std::int64_t at_b_ = 0, at_c_ = 0, ld_ = 0;
  std::vector<int> numbers_;
};

class OneBuffer : public Served {
 protected:
  using Served::Served;

  void check_one_buffer(Matmul& matmul, const Problem& problem, std::int64_t gap) {
    OneBufferJob job(problem, gap), on_host = job;
    const DeviceBuffer buffer = uploaded(job.memory);
    matmul(problem, job.call(buffer.data()));
    device->synchronize(nullptr);
    device->copy_to_host(job.memory.at(0), buffer.data(), job.memory.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ", gap " << gap;
    matmul.host(problem, on_host.call(on_host.memory.at(0)));
    EXPECT_EQ(on_host.first_wrong(), -1) << to_string(problem) << " on host pointers, gap " << gap;
  }

  /// Checks every template's default configuration, aligned and not. `layouts`: how many of the
  /// four, in turn.
  void check_templates_in_one_buffer(std::int64_t size, int layouts) {
    int databases = 0, served = 0, turn = 0;
    for (const KernelTemplate& kernel : catalog())
      for (const DType type : {DType::f32, DType::bf16})
        for (int i = 0; i < layouts; ++i) {
          const Layout layout = kLayouts[turn++ % 4];
          const Problem problem =
              typed_problem(layout, size + 3, size, size + 8, type, type, MathMode::strict);
          if (!kernel.supports(problem, device->info())) continue;
          const Configuration configuration = kernel.default_configuration(problem, device->info());
          if (!rejection(kernel, problem, configuration, device->info()).empty()) continue;
          options.database = (folder / (std::to_string(++databases) + ".db")).string();
          Matmul matmul = with_winner(problem, {kernel.name, configuration});
          for (const std::int64_t gap : {0, 1}) check_one_buffer(matmul, problem, gap);
          ++served;
        }
    EXPECT_GT(served, 4);
  }
};

}  // namespace tilewise::test
