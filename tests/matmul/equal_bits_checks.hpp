#pragma once
// Configurations of equal SumOrder, compared bit for bit on random operands.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/search_space.hpp"
#include "tests/matmul/on_device.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::test {

/// What is multiplied: C has up to m rows.
struct BitsCase {
  std::vector<const char*> templates;
  DType operand = DType::f32, c = DType::f32;
  MathMode math = MathMode::strict;
  std::int64_t m = 0, n = 0, k = 0;
  std::string order = {};            ///< that all configurations have; empty: any
  std::optional<DType> narrow = {};  ///< of B, where it differs from that of A: i8 or e4m3
  std::string epilogue = {};         ///< whose operands are read; none is of rows
};

struct EqualBitsTest : OnDevice {
  explicit EqualBitsTest(std::string device) : OnDevice(std::move(device)) {}
  using Bytes = std::vector<std::byte>;

  /// Multiplies by `draws` random configurations of each template in random forms: the rows of C,
  /// the layout, a batch, leading dimensions, and where the matrices begin. Rows of equal order
  /// must have equal bits. TILEWISE_FULL=1: four times as many draws.
  void compare_bits(const BitsCase& of, int draws) {
    if (std::getenv("TILEWISE_FULL")) draws *= 4;
    const Bytes a = operand_a(of), b = random_matrix(of.narrow.value_or(of.operand), of.n, of.k),
                c = random_matrix(of.c, of.m, of.n);
    std::vector<Operand> operands;
    if (!of.epilogue.empty()) {
      const Epilogue epilogue(of.epilogue);
      for (const EpilogueSlot& slot : epilogue.form()->operands) {
        const EpilogueShape shape = shape_of(slot, of.m, of.n, of.k);
        const Bytes numbers = random_matrix(type_of(slot, of.c), shape.rows, shape.columns);
        operands.push_back({uploaded(numbers.data(), std::ssize(numbers)), shape.columns});
      }
    }
    Known known;
    for (const char* name : of.templates)
      for (int i = 0; i < draws; ++i) {
        ASSERT_NO_FATAL_FAILURE(compare_one(of, find_template(name), {a, b, c, operands}, known));
      }
    for (const auto& [key, rows] : known)
      if (key.second == 1) pairs_ += rows.configurations * (rows.configurations - 1) / 2;
  }

  std::int64_t pairs_ = 0;  ///< of configurations of equal order
  std::set<Configuration> configurations_;
  std::set<std::string> forms_;  ///< of calls
  std::mt19937_64 random_{11};

 private:
  /// The most rows of an order and an alpha, and what computed them.
  struct Rows {
    Bytes bits;
    std::string of;
    std::int64_t configurations = 0;
  };
  using Known = std::map<std::pair<SumOrder, double>, Rows>;
  /// Of the epilogue, on the device.
  struct Operand {
    DeviceBuffer numbers;
    std::int64_t ld;
  };
  /// Row-major, without gaps: A as m x k, B as n x k, C before the product.
  struct Numbers {
    const Bytes &a, &b, &c;
    const std::vector<Operand>& operands;
  };
  /// A matrix, or a batch of matrices, of a call.
  struct Stored {
    std::int64_t ld = 0, stride = 0, skipped = 0;  ///< elements; before the first
    Bytes bytes;
  };

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }
  Bytes random_matrix(DType type, std::int64_t rows, std::int64_t columns) {
    Bytes matrix(static_cast<std::size_t>(rows * columns * bytes_of(type)));
    std::normal_distribution<> normal;
    for (std::size_t at = 0; at < matrix.size(); at += static_cast<std::size_t>(bytes_of(type)))
      from_double(type, normal(random_) * (at / 1024 % 3 ? 1 : 0x1p-30), matrix.data() + at);
    return matrix;
  }
  /// In one of five rows all is 0 but one number, the largest below 0, whose products may
  /// underflow.
  Bytes operand_a(const BitsCase& of) {
    Bytes a = random_matrix(of.operand, of.m, of.k);
    const std::int64_t element = bytes_of(of.operand);
    for (std::int64_t row = 0; row < of.m; row += 5) {
      std::byte* begin = a.data() + row * of.k * element;
      std::fill_n(begin, of.k * element, std::byte{0});
      begin[row % of.k * element] |= std::byte{0x01};
      begin[(row % of.k + 1) * element - 1] |= std::byte{0x80};
    }
    return a;
  }
  /// `batch` matrices of rows x columns, which follow one another in `from` (all are the first if
  /// `shared`), as a call has them. tight: without gaps.
  Stored stored(const Bytes& from, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                int element, bool transposed, bool tight, bool shared = false) {
    Stored to;
    to.ld = (transposed ? rows : columns) + (tight ? 0 : below(9));
    to.stride = (transposed ? columns : rows) * to.ld + (tight ? 0 : below(3));
    to.skipped = tight ? 0 : below(4);
    to.bytes.resize(static_cast<std::size_t>((to.skipped + batch * to.stride) * element));
    for (std::int64_t row = 0; row < batch * rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t i = row % rows;
        std::memcpy(to.bytes.data() + place(to, row / rows, i, column, transposed) * element,
                    from.data() + ((shared ? i : row) * columns + column) * element,
                    static_cast<std::size_t>(element));
      }
    return to;
  }
  static std::int64_t place(const Stored& in, std::int64_t matrix, std::int64_t row,
                            std::int64_t column, bool transposed) {
    return in.skipped + matrix * in.stride +
           (transposed ? column * in.ld + row : row * in.ld + column);
  }

  void compare_one(const BitsCase& of, const KernelTemplate& kernel, const Numbers& numbers,
                   Known& known) {
    // A product of few rows is as frequent as one of many.
    const std::int64_t most = below(2) == 0 ? of.m : std::min<std::int64_t>(of.m, 8);
    const std::int64_t batch = most > 1 && below(4) == 0 ? 2 : 1;
    const bool tight = below(3) == 0;
    Problem problem =
        typed_problem(kLayouts[below(4)], 1 + below(most / batch), of.n, of.k, of.operand,
                      of.narrow.value_or(of.operand), of.c, of.math, batch);
    if (!of.epilogue.empty()) set_epilogue(problem, Epilogue(of.epilogue));
    const int element = bytes_of(of.operand), element_b = bytes_of(problem.b.type),
              result = bytes_of(of.c);
    const Stored a = stored(numbers.a, problem.m, of.k, batch, element, problem.a.transposed,
                            tight),
                 b = stored(numbers.b, of.n, of.k, batch, element_b, !problem.b.transposed, tight,
                            true),
                 c = stored(numbers.c, problem.m, of.n, batch, result, false, tight);
    const DeviceBuffer on_a = uploaded(a.bytes.data(), std::ssize(a.bytes)),
                       on_b = uploaded(b.bytes.data(), std::ssize(b.bytes)),
                       on_c(*device_, std::ssize(c.bytes));
    Call call;
    call.a = static_cast<std::byte*>(on_a.data()) + a.skipped * element;
    call.b = static_cast<std::byte*>(on_b.data()) + b.skipped * element_b;
    call.c = static_cast<std::byte*>(on_c.data()) + c.skipped * result;
    call.lda = a.ld, call.ldb = b.ld, call.ldc = c.ld;
    call.stride_a = a.stride, call.stride_b = b.stride, call.stride_c = c.stride;
    std::vector<EpilogueOperand> bound;
    for (const Operand& one : numbers.operands) bound.push_back({one.numbers.data(), one.ld, 0, 0});
    call.operands = bound;
    set_alignment(problem, call_alignment(problem, call));
    if (!of.order.empty()) problem.order = interned(parse_sum_order(of.order));
    if (!kernel.supports(problem, device_->info())) return;
    const SearchSpace space(problem, device_->info(), {&kernel});
    const auto drawn = space.random_of(kernel, random_, 100000);
    if (!drawn) return;
    const auto order = sum_order_of(*drawn, problem, device_->info());
    if (!order) return;
    std::string log;
    const Plan plan =
        kernel.plan(problem, with_added(kernel, drawn->configuration), device_->info());
    const std::vector<Image> images = images_of(plan, log);
    if (images.empty() && log.find("spills") != std::string::npos) return;
    ASSERT_FALSE(images.empty()) << log;
    const Executable product(*device_, problem, plan, images);
    const std::string what = to_string(*drawn) + " for " + to_string(problem);
    configurations_.insert(drawn->configuration);
    forms_.insert(
        std::string(to_string(layout_of(problem))) + (batch > 1 ? " batch" : "") +
        (product.packing(StepRole::pack_a) || product.packing(StepRole::pack_b) ? " packed" : "") +
        (problem.c.alignment < 16 ? " unaligned" : ""));
    for (const double alpha : {-0.0, 1.0, 0.75}) {  // the last one reads C
      call.alpha = alpha, call.beta = alpha == 0.75 ? -0.5 : 0;
      Rows& rows = known[{*order, alpha}];
      ++rows.configurations;
      device_->copy_to_device(on_c.data(), c.bytes.data(), on_c.bytes(), nullptr);
      product.launch(call);
      Bytes all(c.bytes.size()), found;
      device_->copy_to_host(all.data(), on_c.data(), on_c.bytes(), nullptr);
      device_->synchronize(nullptr);
      for (std::int64_t row = 0; row < batch * problem.m; ++row) {
        const std::byte* begin =
            all.data() + place(c, row / problem.m, row % problem.m, 0, false) * result;
        found.insert(found.end(), begin, begin + of.n * result);
      }
      const std::ptrdiff_t both = std::min(std::ssize(rows.bits), std::ssize(found));
      const auto equal = std::mismatch(rows.bits.begin(), rows.bits.begin() + both, found.begin());
      ASSERT_EQ((equal.first - rows.bits.begin()) / result, both / result)
          << "the first element that differs; " << to_string(*order) << ", alpha " << alpha << ": "
          << rows.of << " and " << what;
      if (found.size() > rows.bits.size()) rows.bits = found, rows.of = what;
    }
  }
};

}  // namespace tilewise::test
