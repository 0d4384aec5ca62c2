#pragma once
// The order in which kernels add products, seen from outside, against SumOrder. Where two products
// of an element are M and -M, with M so large that M + 1 = M, and all others are 1, the result is
// the number of products that are added after both have met (Xie, Gao, Shen, Zhang, "FPRev:
// Revealing the Order of Floating-Point Summation", 2024). Each row of A tries another pair.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/matmul/equal_bits_checks.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::test {

/// A sum of M, -M and ones.
struct ProbedSum {
  int large = 0;  ///< 1: M, -1: -M
  std::int64_t ones = 0;
  friend ProbedSum operator+(const ProbedSum& x, const ProbedSum& y) {
    if (x.large != 0 || y.large != 0) return {x.large + y.large, 0};
    return {0, x.ones + y.ones};
  }
};

/// The sum of products of an element in a stated order, where product `plus` is M and `minus` -M.
/// by_hardware: an instruction adds its products and the sum at once; on the CPU one by one.
class StatedSum {
 public:
  StatedSum(const SumOrder& order, std::int64_t k, std::int64_t plus, std::int64_t minus,
            bool by_hardware)
      : order_(order), k_(k), plus_(plus), minus_(minus), by_hardware_(by_hardware) {}

  ProbedSum all() const {
    if (order_.part == 0) return part(0, k_);
    std::vector<ProbedSum> rows(static_cast<std::size_t>(order_.rows));
    for (std::int64_t begin = 0, nth = 0; begin < k_; begin += order_.part, ++nth) {
      ProbedSum& row = rows[static_cast<std::size_t>(nth % order_.rows)];
      row = row + part(begin, std::min(begin + order_.part, k_));
    }
    return sum_of(rows);
  }

 private:
  static ProbedSum sum_of(const std::vector<ProbedSum>& sums) {
    ProbedSum sum = sums.front();
    for (std::size_t i = 1; i < sums.size(); ++i) sum = sum + sums[i];
    return sum;
  }
  ProbedSum product(std::int64_t nth) const {
    if (nth == plus_ || nth == minus_) return {nth == plus_ ? 1 : -1, 0};
    return {0, 1};
  }
  /// A chain that goes on with products begin to end - 1.
  ProbedSum chain(ProbedSum sum, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t step = begin; step < end; step += order_.together) {
      const std::int64_t last = std::min(step + order_.together, end);
      if (by_hardware_) {
        ProbedSum next = sum;
        bool large = sum.large != 0;
        for (std::int64_t i = step; i < last; ++i) {
          const ProbedSum one = product(i);
          large = large || one.large != 0;
          next.large += one.large;
          next.ones += one.ones;
        }
        sum = {next.large, large ? 0 : next.ones};
      } else {
        for (std::int64_t i = step; i < last; ++i) sum = sum + product(i);
      }
    }
    return sum;
  }
  ProbedSum promoted(ProbedSum sum, std::int64_t begin, std::int64_t end) const {
    if (order_.promoted == 0) return chain(sum, begin, end);
    for (std::int64_t from = begin; from < end; from += order_.promoted)
      sum = sum + chain({}, from, std::min(from + order_.promoted, end));
    return sum;
  }
  ProbedSum part(std::int64_t begin, std::int64_t end) const {
    if (order_.slice == 0) return promoted({}, begin, end);
    std::vector<ProbedSum> slices;
    for (int nth = 0; nth < order_.slices; ++nth) slices.push_back(slice(nth, begin, end));
    return sum_of(slices);
  }
  ProbedSum slice(int nth, std::int64_t begin, std::int64_t end) const {
    const int lanes = order_.lane_vector > 0 ? 32 : 1;
    std::vector<ProbedSum> sums(static_cast<std::size_t>(lanes));
    for (std::int64_t from = begin + std::int64_t{nth} * order_.slice; from < end;
         from += std::int64_t{order_.slices} * order_.slice) {
      const std::int64_t last = std::min(from + order_.slice, end);
      if (lanes == 1) {
        sums[0] = promoted(sums[0], from, last);
        continue;
      }
      for (std::int64_t i = from; i < last; ++i) {
        ProbedSum& sum = sums[static_cast<std::size_t>((i - from) / order_.lane_vector % lanes)];
        sum = sum + product(i);
      }
    }
    for (std::size_t apart = sums.size() / 2; apart > 0; apart /= 2)
      for (std::size_t i = 0; i < apart; ++i) sums[i] = sums[i] + sums[i + apart];
    return sums.front();
  }

  const SumOrder& order_;
  std::int64_t k_, plus_, minus_;
  bool by_hardware_;
};

struct SumOrderTest : EqualBitsTest {
  explicit SumOrderTest(std::string device) : EqualBitsTest(std::move(device)) {}

  /// Elements of A for products of 1 and M, and of B. narrow: the type holds no M for elements of B
  /// that are alike; then B has the same elements as A, and all rows try one pair.
  struct Numbers {
    double one, large;
    bool narrow = false;
  };
  static Numbers numbers_of(DType type) {
    switch (type) {
      case DType::f64:
        return {1, 0x1p80};
      case DType::f16:
        return {0x1p-24, 0x1p15};
      case DType::e4m3:
        return {0x1p-9, 0x1p8, true};
      case DType::e5m2:
        return {0x1p-16, 0x1p15, true};
      default:
        return {1, 0x1p60};
    }
  }

  /// Checks the elements of C against the stated order; none: the order may be any.
  void probe(const KernelTemplate& kernel, const Problem& problem, const Configuration& c) {
    SCOPED_TRACE(kernel.name + " " + c.text() + " for " + to_string(problem));
    const DeviceInfo& info = device_->info();
    const std::optional<SumOrder> order = kernel.sum_order(problem, with_added(kernel, c), info);
    if (!order || order->arithmetic == SumOrder::Arithmetic::exact) return;
    SCOPED_TRACE(to_string(*order));
    const Numbers numbers = numbers_of(problem.a.type);
    const std::int64_t m = problem.m, n = problem.n, k = problem.k;
    std::vector<std::int64_t> plus, minus;
    const auto draw = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
    };
    for (std::int64_t row = 0; row < problem.batch * m; ++row) {
      plus.push_back(numbers.narrow && row > 0 ? plus.front() : draw(k));
      // Neighbours as often as any two.
      const std::int64_t apart = random_() % 2 == 0 ? 1 : 1 + draw(k - 1);
      minus.push_back(numbers.narrow && row > 0 ? minus.front() : (plus.back() + apart) % k);
    }
    const int element = bytes_of(problem.a.type);
    std::vector<std::byte> a(static_cast<std::size_t>(problem.batch * m * k * element)),
        b(static_cast<std::size_t>(problem.batch * n * k * element));
    for (std::int64_t row = 0; row < problem.batch * m; ++row)
      for (std::int64_t l = 0; l < k; ++l) {
        const auto nth = static_cast<std::size_t>(row);
        const double value = l == plus[nth]    ? numbers.large
                             : l == minus[nth] ? -numbers.large
                                               : numbers.one;
        const std::int64_t i = row % m, in_matrix = problem.a.transposed ? l * m + i : i * k + l;
        from_double(problem.a.type, value, a.data() + (row / m * m * k + in_matrix) * element);
      }
    const double of_b = numbers.narrow ? numbers.one : 1;
    for (std::int64_t column = 0; column < problem.batch * n; ++column)
      for (std::int64_t l = 0; l < k; ++l) {
        const bool large = numbers.narrow && (l == plus.front() || l == minus.front());
        const std::int64_t j = column % n, in_matrix = problem.b.transposed ? j * k + l : l * n + j;
        from_double(problem.b.type, large ? numbers.large : of_b,
                    b.data() + (column / n * n * k + in_matrix) * element);
      }
    const Plan plan = kernel.plan(problem, with_added(kernel, c), info);
    std::string log;
    const std::vector<Image> images = images_of(plan, log);
    if (images.empty() && log.find("spills") != std::string::npos) return;
    ASSERT_FALSE(images.empty()) << log;
    const Executable executable(*device_, problem, plan, images);
    const DeviceBuffer on_a = uploaded(a.data(), static_cast<std::int64_t>(a.size())),
                       on_b = uploaded(b.data(), static_cast<std::int64_t>(b.size()));
    std::vector<std::byte> result(
        static_cast<std::size_t>(problem.batch * m * n * bytes_of(problem.c.type)));
    const DeviceBuffer on_c(*device_, static_cast<std::int64_t>(result.size()));
    Call call;
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = n;
    call.stride_a = m * k, call.stride_b = n * k, call.stride_c = m * n;
    executable.launch(call);
    device_->copy_to_host(result.data(), on_c.data(), on_c.bytes(), nullptr);
    device_->synchronize(nullptr);
    // The CPU executor adds the products of an instruction one by one, but for 8-bit floats.
    const bool at_once =
        !info.target.host || order->arithmetic == SumOrder::Arithmetic::fp8_by_wgmma;
    for (std::int64_t row = 0; row < problem.batch * m; ++row) {
      const auto nth = static_cast<std::size_t>(row);
      const ProbedSum stated = StatedSum(*order, k, plus[nth], minus[nth], at_once).all();
      ASSERT_EQ(stated.large, 0);
      const double wanted = double(stated.ones) * numbers.one * of_b;
      for (std::int64_t j = 0; j < n; ++j)
        ASSERT_EQ(
            to_double(problem.c.type, result.data() + (row * n + j) * bytes_of(problem.c.type)),
            wanted)
            << "with M at " << plus[nth] << " and -M at " << minus[nth] << " in row " << row
            << ", column " << j << " of " << k << " products";
    }
    ++probed_;
    orders_.insert(to_string(*order));
  }

  /// Random configurations of a template for each of two layouts, for one product and for a batch.
  /// TILEWISE_FULL=1: four times as many.
  void check(const char* name, DType operand, DType c, MathMode math, std::int64_t m,
             std::int64_t n, std::int64_t k, int random = 2) {
    const KernelTemplate& kernel = find_template(name);
    const int before = probed_;
    if (std::getenv("TILEWISE_FULL")) random *= 4;
    for (const Layout layout : {Layout::nt, Layout::tn})
      for (const std::int64_t batch : {1, 2}) {
        const Problem problem = typed_problem(layout, m, n, k, operand, c, math, batch);
        if (!kernel.supports(problem, device_->info())) continue;
        const SearchSpace space(problem, device_->info(), {&kernel});
        for (int i = 0; i < random; ++i)
          if (const auto drawn = space.random_of(kernel, random_, 100000))
            probe(kernel, problem, drawn->configuration);
        if (HasFatalFailure()) return;
      }
    EXPECT_GT(probed_, before) << name;
  }

  int probed_ = 0;
  std::set<std::string> orders_;  ///< that were seen
};

}  // namespace tilewise::test
