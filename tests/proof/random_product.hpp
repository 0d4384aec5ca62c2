#pragma once
// Random products, checked exactly: whole numbers that every type of the product holds, so that
// results are equal, not only near.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/matmul/whole_numbers.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/matmul.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::proof {

using Generator = std::mt19937_64;

inline std::int64_t between(Generator& generator, std::int64_t least, std::int64_t most) {
  return least + std::int64_t(generator() % std::uint64_t(most - least + 1));
}
inline bool one_in(Generator& generator, int n) { return generator() % std::uint64_t(n) == 0; }
template <class Range>
auto any_of(Generator& generator, const Range& range) {
  return range[generator() % std::size(range)];
}

/// The alignment of addresses, rows and batch strides: all to 16 bytes; that of tightly packed
/// matrices; to elements only; random; one of these per operand.
enum class Placement { aligned, tight, odd, chance, any };

/// The properties that determine a kernel in addition to its parameters. Products of few forms need
/// few kernels.
struct Form {
  ProductKind kind;
  Layout layout = Layout::nn;
  Placement placement = Placement::aligned;
  bool batches = false;  ///< sometimes a call has several products
};

/// "stored": the forms whose kernels the damage tests store. "few": each kind once. "all": every
/// form.
inline Form drawn_form(Generator& generator, const std::string& forms) {
  const auto kinds = test::whole_byte_kinds();
  const auto kind = [](DType type) { return *find_product_kind(type, type, MathMode::strict); };
  if (forms == "stored") {
    const std::array<Form, 5> stored{{{kind(DType::f32), Layout::nn},
                                      {kind(DType::f32), Layout::nt},
                                      {kind(DType::f64), Layout::tn},
                                      {kind(DType::f16), Layout::nt},
                                      {kind(DType::f32), Layout::tt}}};
    return any_of(generator, stored);
  }
  const std::size_t number = generator() % kinds.size();
  if (forms == "few")
    return {kinds[number], test::kLayouts[number % 4],
            number % 2 == 0 ? Placement::aligned : Placement::odd};
  constexpr Placement placements[] = {Placement::aligned, Placement::aligned, Placement::tight,
                                      Placement::odd,     Placement::odd,     Placement::any};
  return {kinds[number], any_of(generator, test::kLayouts), any_of(generator, placements), true};
}

/// The largest whole number up to which a result and every partial sum are exact.
inline std::int64_t exact_up_to(const ProductKind& kind) {
  constexpr std::int64_t kFp8Sums = 1 << 12;
  if (is_integer(kind.c)) return 1 << 20;
  const std::int64_t of_c = std::int64_t{2} << std::min(test::format_of(kind.c).fraction, 20);
  return is_fp8(kind.a) ? std::min(of_c, kFp8Sums) : of_c;
}

/// A batch of matrices in memory with space before, between and after them.
struct Matrices {
  Matrices(DType type, std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_) {
    elements.emplace(type, 0, 0);
  }
  void place(Generator& generator, Placement placement, std::int64_t batch, bool is_result);
  std::int64_t at(std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    return offset + matrix * stride + row * ld + column;
  }
  void set(std::int64_t position, int value) {
    elements->set(position, value);
    numbers[std::size_t(position)] = value;
  }
  int number(std::int64_t position) const { return numbers[std::size_t(position)]; }
  std::byte* address() { return elements->at(offset); }
  std::int64_t bytes_per_element() const { return bytes_of(elements->type); }
  int alignment(std::int64_t batch) {
    const auto bytes = std::uint64_t(bytes_per_element());
    return common_alignment({reinterpret_cast<std::uintptr_t>(address()), std::uint64_t(ld) * bytes,
                             batch > 1 ? std::uint64_t(stride) * bytes : 0});
  }
  /// Sets an element to NaN, or for integers to a number that makes every sum wrong.
  void spoil(std::int64_t position) {
    const DType type = elements->type;
    if (is_integer(type))
      elements->set(position, 101);
    else
      elements->set_bits(position, test::not_a_number(type));
  }

  std::int64_t rows, columns, ld = 0, stride = 0, offset = 0;
  bool overlap = false;  ///< matrices share elements: a stride between 0 and a matrix's extent
  std::optional<test::Elements> elements;
  std::vector<int> numbers;
};

inline void Matrices::place(Generator& generator, Placement placement, std::int64_t batch,
                            bool is_result) {
  const DType type = elements->type;
  if (placement == Placement::any)
    placement = any_of(generator, std::array{Placement::aligned, Placement::tight, Placement::odd,
                                             Placement::chance});
  const std::int64_t step =
      placement == Placement::aligned ? std::max<std::int64_t>(16 / bytes_per_element(), 1) : 1;
  const auto rounded = [&](std::int64_t count) { return (count + step - 1) / step * step; };
  const std::int64_t gap = placement == Placement::tight ? 0 : between(generator, 0, 3);
  ld = rounded(std::max<std::int64_t>(columns, 1)) + gap * step;
  offset = rounded(between(generator, 0, placement == Placement::tight ? 0 : 15));
  if (placement == Placement::odd) offset |= 1, ld |= 1;
  const std::int64_t extent = rows > 0 ? (rows - 1) * ld + columns : 0;
  std::int64_t last = extent;
  stride = rounded(extent + (placement == Placement::tight ? 0 : between(generator, 0, 9)));
  if (is_result && batch > 1 && one_in(generator, 4)) {  // matrices share rows of memory
    stride = rounded(std::max<std::int64_t>(columns, 1));
    ld = std::max(ld, rounded((batch - 1) * stride + columns));
    last = rows > 0 ? (rows - 1) * ld + (batch - 1) * stride + columns : 0;
  } else if (!is_result && batch > 1 && one_in(generator, 4)) {
    stride = one_in(generator, 2)
                 ? 0
                 : rounded(between(generator, 0, std::max<std::int64_t>(extent, 1)));
    overlap = stride > 0 && stride < extent;
    last = extent + (batch - 1) * stride;
  } else if (batch > 0) {
    last = extent + (batch - 1) * stride;
  }
  if (batch <= 1 && one_in(generator, 4)) stride = 0;  // the stride is unused then
  const std::int64_t count = offset + last + 16;
  elements.emplace(type, count, 7);
  numbers.assign(std::size_t(count), 7);
}

/// One product with its operands, its call and the expected C.
class Product {
 public:
  Product(std::uint64_t seed, const std::string& forms);
  /// Serves the product through one of Matmul's interfaces.
  void serve(Matmul& matmul);
  /// The first wrong element with its value; empty if all are right.
  std::string wrong();
  /// False if the product must not read its operands, which may then be anything.
  bool reads_operands() const { return problem_.k > 0 && alpha_ != 0; }
  std::string text() const;

 private:
  void draw_sizes(Generator& generator, const Form& form);
  void draw_scalars(Generator& generator, const ProductKind& kind);
  void fill(Generator& generator, const ProductKind& kind);
  void expect();
  std::int64_t place_a(std::int64_t matrix, std::int64_t i, std::int64_t q) const {
    return problem_.a.transposed ? a_->at(matrix, q, i) : a_->at(matrix, i, q);
  }
  std::int64_t place_b(std::int64_t matrix, std::int64_t q, std::int64_t j) const {
    return problem_.b.transposed ? b_->at(matrix, j, q) : b_->at(matrix, q, j);
  }

  enum class Way { device_pointers, host_pointers, device_scalars, packed };
  Problem problem_;
  std::optional<Matrices> a_, b_, c_;
  int alpha_ = 1, beta_ = 0;
  Way way_ = Way::device_pointers;
  bool pack_a_ = false, pack_b_ = false, null_operands_ = false;
  std::vector<int> expected_;
};

inline Product::Product(std::uint64_t seed, const std::string& forms) {
  Generator generator(seed * 0x9e3779b97f4a7c15U + 1);
  const Form form = drawn_form(generator, forms);
  set_layout(problem_, form.layout);
  set_types(problem_, form.kind);
  draw_sizes(generator, form);
  const bool at = problem_.a.transposed, bt = problem_.b.transposed;
  a_.emplace(problem_.a.type, at ? problem_.k : problem_.m, at ? problem_.m : problem_.k);
  b_.emplace(problem_.b.type, bt ? problem_.n : problem_.k, bt ? problem_.k : problem_.n);
  c_.emplace(problem_.c.type, problem_.m, problem_.n);
  a_->place(generator, form.placement, problem_.batch, false);
  b_->place(generator, form.placement, problem_.batch, false);
  c_->place(generator, form.placement, problem_.batch, true);
  draw_scalars(generator, form.kind);
  way_ = any_of(generator, std::array{Way::device_pointers, Way::device_pointers,
                                      Way::host_pointers, Way::device_scalars, Way::packed});
  // Products on host pointers have operands of one type.
  if (way_ == Way::host_pointers && form.kind.a != form.kind.b) way_ = Way::device_pointers;
  pack_a_ = one_in(generator, 2), pack_b_ = !pack_a_ || one_in(generator, 2);
  null_operands_ = !reads_operands() && way_ != Way::device_scalars && way_ != Way::packed &&
                   one_in(generator, 2);
  fill(generator, form.kind);
  expect();
}

inline void Product::draw_sizes(Generator& generator, const Form& form) {
  const auto size = [&]() -> std::int64_t {
    const std::int64_t kind = between(generator, 1, 100);
    if (kind <= 4) return 0;
    if (kind <= 25) return between(generator, 1, 4);
    if (kind <= 40) return any_of(generator, std::array{8, 16, 32, 64, 128});
    if (kind <= 75) return between(generator, 5, 33);
    return kind <= 96 ? between(generator, 34, 80) : between(generator, 81, 200);
  };
  problem_.m = size(), problem_.n = size(), problem_.k = size();
  if (!form.batches || !one_in(generator, 4)) return;
  // Kernels for many small products are specialised on their sizes, so few sizes need few kernels.
  constexpr Size sizes[] = {{1, 1, 1},  {4, 4, 4},    {8, 8, 8},  {5, 7, 3},    {16, 16, 16},
                            {3, 33, 9}, {17, 24, 31}, {9, 2, 40}, {32, 32, 32}, {48, 20, 0}};
  problem_.batch = any_of(generator, std::array{0, 2, 3, 5, 17});
  if (one_in(generator, 5)) {
    problem_.m = problem_.m % 70, problem_.n = problem_.n % 70, problem_.k = problem_.k % 70;
  } else {
    const Size chosen = any_of(generator, sizes);
    problem_.m = chosen.m, problem_.n = chosen.n, problem_.k = chosen.k;
  }
}

inline void Product::draw_scalars(Generator& generator, const ProductKind& kind) {
  alpha_ = any_of(generator, std::array{1, 1, 1, -1, -1, 2, -2, 0});
  beta_ = any_of(generator, std::array{0, 0, 0, 1, 1, -1, 2});
  if (exact_up_to(kind) <= 8 && std::abs(alpha_) == 2 && beta_ == 2) beta_ = 1;
}

/// Makes dense operands if C holds every sum exactly; otherwise op(A) has few nonzeros per row.
inline void Product::fill(Generator& generator, const ProductKind& kind) {
  const auto spoil_all = [](Matrices& x) {
    for (std::int64_t i = 0; i < std::int64_t(x.numbers.size()); ++i) x.spoil(i);
  };
  spoil_all(*a_), spoil_all(*b_);
  const int most_c = 2;
  const std::int64_t room =
      (exact_up_to(kind) - std::abs(beta_) * most_c) / std::max(std::abs(alpha_), 1);
  int most_a = exact_up_to(kind) >= 1 << 10 ? 3 : 1, most_b = most_a;
  const bool dense = problem_.k * most_a * most_b <= room && !one_in(generator, 4);
  if (!dense) most_a = most_b = 1;
  const std::int64_t some = std::min<std::int64_t>(room, 40);
  if (!dense && a_->overlap) {  // rows of one matrix overlap another's rows
    a_->stride = 0, a_->overlap = false;
  }
  for (std::int64_t batch = 0; batch < problem_.batch; ++batch) {
    for (std::int64_t i = 0; i < problem_.m; ++i) {
      for (std::int64_t q = 0; q < problem_.k; ++q)
        a_->set(place_a(batch, i, q), dense ? int(between(generator, -most_a, most_a)) : 0);
      for (std::int64_t x = 0; !dense && problem_.k > 0 && x < some; ++x)
        a_->set(place_a(batch, i, between(generator, 0, problem_.k - 1)),
                one_in(generator, 2) ? 1 : -1);
    }
    for (std::int64_t q = 0; q < problem_.k; ++q)
      for (std::int64_t j = 0; j < problem_.n; ++j)
        b_->set(place_b(batch, q, j), int(between(generator, -most_b, most_b)));
    for (std::int64_t i = 0; i < problem_.m; ++i)
      for (std::int64_t j = 0; j < problem_.n; ++j) {
        c_->set(c_->at(batch, i, j), int(between(generator, -most_c, most_c)));
        if (beta_ == 0) c_->spoil(c_->at(batch, i, j));
      }
  }
}

/// Computes the expected C by a plain triple loop.
inline void Product::expect() {
  expected_ = c_->numbers;
  for (std::int64_t batch = 0; batch < problem_.batch; ++batch)
    for (std::int64_t i = 0; i < problem_.m; ++i)
      for (std::int64_t j = 0; j < problem_.n; ++j) {
        const std::int64_t at = c_->at(batch, i, j);
        std::int64_t sum = 0;
        for (std::int64_t q = 0; alpha_ != 0 && q < problem_.k; ++q)
          sum += std::int64_t{a_->number(place_a(batch, i, q))} * b_->number(place_b(batch, q, j));
        expected_[std::size_t(at)] = int(alpha_ * sum + beta_ * c_->number(at));
      }
}

inline void Product::serve(Matmul& matmul) {
  Problem problem = problem_;
  set_alignment(problem, {a_->alignment(problem.batch), b_->alignment(problem.batch),
                          c_->alignment(problem.batch)});
  Call call;
  call.a = null_operands_ ? nullptr : a_->address();
  call.b = null_operands_ ? nullptr : b_->address();
  call.c = c_->address();
  call.lda = a_->ld, call.ldb = b_->ld, call.ldc = c_->ld;
  call.stride_a = a_->stride, call.stride_b = b_->stride, call.stride_c = c_->stride;
  call.alpha = alpha_, call.beta = beta_;
  if (way_ == Way::host_pointers) return matmul.host(problem, call);
  test::Elements scalars(problem.accumulator, 2, alpha_);
  PackedOperand a, b;
  if (way_ == Way::device_scalars) {
    scalars.set(1, beta_);
    call.alpha_device = scalars.at(0), call.beta_device = scalars.at(1);
    call.alpha = call.beta = 77;  // must not be read
  } else if (way_ == Way::packed) {
    if (pack_a_) a = matmul.pack_a(problem, call.a, call.lda, call.stride_a), call.packed_a = &a;
    if (pack_b_) b = matmul.pack_b(problem, call.b, call.ldb, call.stride_b), call.packed_b = &b;
  }
  matmul(problem, call);
}

inline std::string Product::wrong() {
  for (std::int64_t i = 0; i < std::int64_t(expected_.size()); ++i) {
    const int want = expected_[std::size_t(i)];
    // A result of 0 may have a sign.
    if (c_->elements->holds(i, want) || (want == 0 && c_->elements->value(i) == 0)) continue;
    return "element " + std::to_string(i) + " of C's memory, which begins at element " +
           std::to_string(c_->offset) + ", is " + std::to_string(c_->elements->value(i)) +
           ", not " + std::to_string(want);
  }
  return "";
}

inline std::string Product::text() const {
  const auto place = [](const char* name, const Matrices& x) {
    return std::string(", ") + name + " at " + std::to_string(x.offset) + " ld " +
           std::to_string(x.ld) + " stride " + std::to_string(x.stride);
  };
  constexpr const char* ways[] = {"device pointers", "host pointers", "scalars on the device",
                                  "packed operands"};
  return to_string(problem_) + place("A", *a_) + place("B", *b_) + place("C", *c_) + ", alpha " +
         std::to_string(alpha_) + ", beta " + std::to_string(beta_) + ", " +
         ways[static_cast<int>(way_)] + (null_operands_ ? ", A and B null" : "");
}

}  // namespace tilewise::proof
