#pragma once
// Products with epilogues that a Matmul serves, on any machine.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test {

class EpiloguesServed : public Served {
 protected:
  using Served::Served;

  /// Numbers of one type, in `batch` matrices of rows, with gaps.
  struct Values {
    DType type = DType::f32;
    std::int64_t ld = 0, stride = 0;
    std::vector<double> numbers;
    DeviceBuffer on_device;
    double& at(std::int64_t product, std::int64_t row, std::int64_t column) {
      return numbers[static_cast<std::size_t>(product * stride + row * ld + column)];
    }
  };

  /// Small whole numbers. The matrices of a batch are `between` elements apart, more than the rows
  /// take; 0: one for all.
  Values values(DType type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                std::int64_t gap, std::int64_t between = 0) {
    Values made;
    made.type = type;
    made.ld = columns + gap;
    made.stride = between == 0 ? 0 : rows * made.ld + between - 1;
    for (std::int64_t i = 0; i < (batch - 1) * made.stride + rows * made.ld; ++i)
      made.numbers.push_back(double(int(random_() % 5) - 2));
    upload(made);
    return made;
  }
  void upload(Values& values) {
    const std::vector<std::byte> bytes = bytes_of_numbers(values);
    values.on_device = DeviceBuffer(*device, static_cast<std::int64_t>(bytes.size()));
    device->copy_to_device(values.on_device.data(), bytes.data(), values.on_device.bytes(),
                           nullptr);
    device->synchronize(nullptr);
  }
  static std::vector<std::byte> bytes_of_numbers(const Values& values) {
    std::vector<std::byte> bytes(values.numbers.size() *
                                 static_cast<std::size_t>(bytes_of(values.type)));
    for (std::size_t i = 0; i < values.numbers.size(); ++i)
      from_double(values.type, values.numbers[i],
                  bytes.data() + i * static_cast<std::size_t>(bytes_of(values.type)));
    return bytes;
  }
  /// Whether the device has the numbers, also in the gaps.
  void expect_on_device(const Values& values, const std::string& name) {
    std::vector<std::byte> found(static_cast<std::size_t>(values.on_device.bytes()));
    const std::vector<std::byte> wanted = bytes_of_numbers(values);  // rounded to the type
    device->copy_to_host(found.data(), values.on_device.data(), values.on_device.bytes(), nullptr);
    device->synchronize(nullptr);
    const auto size = static_cast<std::size_t>(bytes_of(values.type));
    for (std::size_t i = 0; i < values.numbers.size(); ++i) {
      const double is = to_double(values.type, found.data() + i * size),
                   right = to_double(values.type, wanted.data() + i * size);
      if (std::isnan(right) && std::isnan(is)) continue;
      ASSERT_TRUE(is == right ||
                  std::abs(is - right) <= tolerance_ * std::max(1.0, std::abs(right)))
          << name << " at " << i << ": " << is << ", and not " << right;
    }
  }

  /// How the matrices of a batch lie.
  enum class Batch { apart, shared_b, shared_a };

  /// A product served by `matmul`, against the arithmetic in f64, which is exact for small whole
  /// numbers; functions are off by `tolerance_`. follow: so that the batch may be one product.
  void check(Matmul& matmul, Problem problem, const std::string& text, Batch lie = Batch::apart,
             bool follow = false) {
    const Epilogue epilogue(text);
    set_epilogue(problem, epilogue);
    SCOPED_TRACE(to_string(problem) + " of \"" + text + "\"" + (follow ? ", followed" : ""));
    const EpilogueForm& form = *problem.epilogue;
    const std::int64_t batch = problem.batch, m = problem.m, n = problem.n;
    const bool beside = lie == Batch::shared_a && follow;
    const std::int64_t gap = follow ? 0 : std::int64_t(random_() % 3);
    const std::int64_t between = batch == 1 ? 0 : (follow ? 1 : 3);
    const auto side_by_side = [&](Values& values) {  // in rows of `batch` matrices
      values.stride = n;
      values.ld = n * batch;
      upload(values);
    };
    Values a = values(problem.a.type, rows_a(problem), min_lda(problem), batch, gap,
                      lie == Batch::shared_a ? 0 : between),
           b = values(problem.b.type, rows_b(problem), min_ldb(problem), batch, gap,
                      lie == Batch::shared_b ? 0 : between),
           c = values(problem.c.type, m, n, batch, gap, between);
    if (beside) side_by_side(c);
    if (beside && !problem.b.transposed) side_by_side(b);
    std::vector<Values> operands;
    std::vector<EpilogueOperand> bound;
    for (const EpilogueSlot& slot : form.operands) {
      const bool all = slot.over == EpilogueOver::all,
                 rows = slot.over == EpilogueOver::rows || slot.over == EpilogueOver::row_blocks;
      const bool matrix = slot.over == EpilogueOver::elements;
      const EpilogueShape shape = shape_of(slot, problem);
      const bool varies = matrix || slot.use == EpilogueUse::summed ||
                          (follow ? (lie == Batch::shared_b) == rows && !all : random_() % 2 == 0);
      operands.push_back(values(type_of(slot, problem.c.type), shape.rows, shape.columns, batch,
                                matrix || is_of_blocks(slot.over) ? gap : 0, varies ? between : 0));
      Values& made = operands.back();
      if (matrix && beside) side_by_side(made);
      const bool by_value = all && made.stride == 0 && random_() % 2 == 0;
      bound.push_back({by_value ? nullptr : made.on_device.data(), made.ld, made.stride,
                       by_value ? made.at(0, 0, 0) : 7});
    }
    Call call;
    call.a = a.on_device.data(), call.b = b.on_device.data(), call.c = c.on_device.data();
    call.lda = a.ld, call.ldb = b.ld, call.ldc = c.ld;
    call.stride_a = a.stride, call.stride_b = b.stride, call.stride_c = c.stride;
    call.alpha = int(random_() % 3) - 1, call.beta = int(random_() % 3) - 1;
    call.operands = bound;
    matmul(problem, call);
    device->synchronize(nullptr);
    expect(problem, call, a, b, c, operands);
    if (HasFatalFailure()) return;
    expect_on_device(c, "C");
    for (std::size_t slot = 0; slot < operands.size(); ++slot)
      expect_on_device(operands[slot], epilogue.names()[slot]);
  }

  /// Writes what is expected into c and operands.
  static void expect(const Problem& problem, const Call& call, Values& a, Values& b, Values& c,
                     std::vector<Values>& operands) {
    const EpilogueForm& form = *problem.epilogue;
    for (std::int64_t product = 0; product < problem.batch; ++product) {
      for (std::size_t slot = 0; slot < operands.size(); ++slot)
        for (std::int64_t j = 0; form.operands[slot].use == EpilogueUse::summed && j < problem.n;
             ++j)
          operands[slot].at(product, 0, j) = 0;
      for (std::int64_t i = 0; i < problem.m; ++i)
        for (std::int64_t j = 0; j < problem.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < problem.k; ++k)
            sum += (problem.a.transposed ? a.at(product, k, i) : a.at(product, i, k)) *
                   dequantised(form, operands,
                               problem.b.transposed ? b.at(product, j, k) : b.at(product, k, j),
                               product, i, j, k);
          std::vector<double> read, results;
          for (std::size_t slot = 0; slot < operands.size(); ++slot) {
            const EpilogueOver over = form.operands[slot].over;
            const bool matrix = over == EpilogueOver::elements;
            if (is_of_blocks(over)) {
              read.push_back(0);
              continue;
            }
            const std::int64_t at =
                over == EpilogueOver::all ? 0 : (over == EpilogueOver::rows ? i : j);
            read.push_back(operands[slot].at(product, matrix ? i : 0, at));
          }
          const double acc =
              call.alpha * sum + (call.beta != 0 ? call.beta * c.at(product, i, j) : 0);
          c.at(product, i, j) = evaluate(form, acc, read, &results);
          for (std::size_t slot = 0; slot < operands.size(); ++slot) {
            if (form.operands[slot].use == EpilogueUse::written)
              operands[slot].at(product, i, j) = results[slot];
            if (form.operands[slot].use == EpilogueUse::summed)
              operands[slot].at(product, 0, j) += results[slot];
          }
        }
    }
  }

  /// B's element of step k less its zero point, times all scales.
  static double dequantised(const EpilogueForm& form, std::vector<Values>& operands, double b,
                            std::int64_t product, std::int64_t i, std::int64_t j, std::int64_t k) {
    double scale = 1;
    for (std::size_t slot = 0; slot < operands.size(); ++slot) {
      const EpilogueSlot& of = form.operands[slot];
      if (!is_of_blocks(of.over)) continue;
      const std::int64_t place = of.over == EpilogueOver::row_blocks ? i
                                 : of.over == EpilogueOver::tiles    ? j / kScaledSteps
                                                                     : j;
      const std::int64_t block = k / of.steps;
      const double number =
          operands[slot].at(product, of.k_first ? block : place, of.k_first ? place : block);
      if (is_scale(of.over))
        scale *= number;
      else
        b -= number;
    }
    return b * scale;
  }

  static constexpr const char* kTexts[] = {
      "acc", "relu(acc + bias[j])", "acc * scale_a * scale_b[i] + bias:f32[j]",
      "x = acc + bias[j]; aux[i,j] = x; max(x, 0) + residual[i,j]",
      "g:f32[j] = sum(acc); where(acc < limit, acc, gate[i,j] - acc)"};

  /// Each kind with every epilogue, or every one of `every` in turn.
  void check_every_kind(int every = 1) {
    Matmul matmul(options);
    int turn = 0;
    for (const ProductKind& kind : test::whole_byte_kinds()) {
      if (is_unsupported(matmul,
                         typed_problem(Layout::nn, 8, 8, 8, kind.a, kind.b, kind.c, kind.math)))
        continue;
      for (const char* text : kTexts) {
        if (++turn % every != 0) continue;
        const Layout layout = kLayouts[turn / every % 4];
        const std::int64_t k = kind.c == kind.a && bytes_of(kind.c) == 1 ? 2 : 5 + turn % 20;
        check(matmul,
              typed_problem(layout, 1 + turn % 40, 1 + turn * 7 % 50, k, kind.a, kind.b, kind.c,
                            kind.math, turn % 3 == 0 ? 2 : 1),
              text);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_GT(turn, 0);
  }

  /// Batches that are one product, and others, in which operands vary.
  void check_batches() {
    Matmul matmul(options);
    for (const char* text : kTexts)
      for (const Layout layout : kLayouts)
        for (const Batch lie : {Batch::apart, Batch::shared_b, Batch::shared_a})
          for (const bool follow : {false, true}) {
            check(matmul, typed_problem<float, float>(layout, 6, 9, 11, MathMode::strict, 3), text,
                  lie, follow);
            if (HasFatalFailure()) return;
          }
    check(matmul, typed_problem<float, float>(Layout::nn, 1, 9, 11, MathMode::strict, 4), kTexts[3],
          Batch::shared_b, true);
  }

  /// Scales of blocks of k in each layout. Some of the batches are one product.
  void check_scales() {
    Matmul matmul(options);
    const char* const texts[] = {
        "acc(a[i,k/128] * b[j/128,k/128])", "acc(b[k/128,j/128] * a:bf16[k/128,i]) + bias[j]",
        "relu(acc(a[k/128,i] * b:f16[j,k/128]))", "acc(b[k/128,j])", "acc(a[i,k/128]) * s"};
    int turn = 0;
    for (const char* text : texts)
      for (const DType type : {DType::e4m3, DType::e5m2})
        for (const Batch lie : {Batch::apart, Batch::shared_b, Batch::shared_a})
          for (const bool follow : {false, true}) {
            const Size size =
                turn % 3 == 0 ? Size{37, 150, 300} : Size{5, 9, turn % 3 == 1 ? 128 : 7};
            check(matmul,
                  typed_problem(kLayouts[++turn % 4], size.m, size.n, size.k, type, DType::f32,
                                MathMode::strict, 3),
                  text, lie, follow);
            if (HasFatalFailure()) return;
          }
    for (const Size size : {Size{5, 7, 0}, {0, 7, 3}, {5, 0, 3}, {1, 1, 1}, {1, 300, 257}})
      for (const char* text : texts)
        check(matmul,
              typed_problem(Layout::nt, size.m, size.n, size.k, DType::e4m3, DType::bf16,
                            MathMode::strict),
              text);
  }

  /// No sums: k = 0, and no rows.
  void check_empty() {
    Matmul matmul(options);
    for (const char* text : kTexts) {
      check(matmul, typed_problem<float, float>(Layout::nn, 5, 7, 0), text);
      check(matmul, typed_problem<float, float>(Layout::nn, 0, 7, 3, MathMode::strict, 2), text);
      check(matmul, typed_problem<float, float>(Layout::nn, 5, 0, 3), text);
    }
  }

  std::mt19937 random_{11};
  double tolerance_ = 0;  // relative, of functions that a library computes
};

}  // namespace tilewise::test
