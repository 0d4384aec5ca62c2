#include "tests/kernels/problem_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "templates/parts/moduli_layout.hpp"
#include "tests/support/numbers.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#if defined(TILEWISE_CHECK_ADDRESS)
#include <sanitizer/asan_interface.h>
#elif defined(TILEWISE_CHECK_THREADS)
#include <sanitizer/tsan_interface.h>

// ThreadSanitizer's hook for a one-byte store; no header declares it.
extern "C" void __tsan_write1(void* at);
#endif

namespace tilewise::check {
namespace {

/// Whether the native product ran, by the number of moduli in the workspace of an emulated one;
/// none where a plan is the native product alone.
std::optional<bool> native_ran(Device& device, const Plan& plan, void* workspace) {
  const auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                                 [](const LaunchStep& s) { return s.role == StepRole::native; });
  if (step == plan.steps.end()) return std::nullopt;
  const auto needed =
      std::find_if(step->arguments.begin(), step->arguments.end(),
                   [](const Argument& x) { return x.kind == Argument::Kind::workspace; });
  std::int32_t count = 0;
  device.copy_to_host(&count, static_cast<std::byte*>(workspace) + needed->value, sizeof count,
                      nullptr);
  return count > residues::kMost;
}

constexpr std::byte kCanary{0x5a};
constexpr std::byte kNaNs{0xff};  // NaN in every type that has one
constexpr std::int64_t kTags = 251;
constexpr std::int64_t kNotUsed = -1;  // a stride

/// Rounds to nearest, ties to even. For numbers that are neither subnormal nor too large.
double rounded_to_tf32(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
}

}  // namespace

std::mutex& gpu_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// AddressSanitizer reports accesses to the gaps between a matrix's rows during this object's
/// lifetime.
class Operands::PoisonedGaps {
 public:
  PoisonedGaps(void* data, const Matrix& matrix, std::int64_t batch)
      : data_(static_cast<std::byte*>(data)), matrix_(matrix), batch_(batch) {
#if defined(TILEWISE_CHECK_ADDRESS)
    each_gap([](std::byte* at, std::size_t bytes) { __asan_poison_memory_region(at, bytes); });
#endif
  }
  ~PoisonedGaps() { lift(); }
  PoisonedGaps(const PoisonedGaps&) = delete;
  PoisonedGaps& operator=(const PoisonedGaps&) = delete;
  void lift() const {
#if defined(TILEWISE_CHECK_ADDRESS)
    each_gap([](std::byte* at, std::size_t bytes) { __asan_unpoison_memory_region(at, bytes); });
#endif
  }

 private:
  template <class Do>
  void each_gap(const Do& act) const {
    const std::int64_t matrices = matrix_.stride > 0 ? batch_ : 1;
    for (std::int64_t i = 0; i + 1 < matrices * matrix_.rows; ++i) {
      const std::int64_t from = matrix_.end_of(i / matrix_.rows, i % matrix_.rows);
      const std::int64_t next = i + 1;
      const std::int64_t to = matrix_.byte_of(next / matrix_.rows, next % matrix_.rows, 0);
      act(data_ + from, static_cast<std::size_t>(to - from));
    }
  }

  std::byte* data_;
  const Matrix& matrix_;
  std::int64_t batch_;
};

double Operands::Matrix::number(std::int64_t batch, std::int64_t row, std::int64_t column) {
  const std::byte* from = at(batch, row, column);
  if (type != DType::i4) return test::decode(type, from);
  const int bits = std::to_integer<int>(*from) >> (index_of(batch, row, column) % 2 * 4) & 15;
  return bits < 8 ? bits : bits - 16;
}

void Operands::Matrix::set(std::int64_t batch, std::int64_t row, std::int64_t column,
                           double value) {
  std::byte* to = at(batch, row, column);
  if (type != DType::i4) return test::encode(type, value, to);
  const auto shift = static_cast<int>(index_of(batch, row, column) % 2 * 4);
  const int bits = static_cast<int>(value) & 15;
  *to = (*to & std::byte(0xf0 >> shift)) | std::byte(bits << shift);
}

Operands::Matrix Operands::make(DType type, std::int64_t rows, std::int64_t columns, int alignment,
                                std::byte between, std::int64_t matrices) const {
  Matrix m;
  m.type = type, m.rows = rows, m.columns = columns, m.matrices = matrices;
  const std::int64_t unit =
      std::max(1, alignment / bytes_of(type)) * (8 * bytes_of(type) / bits_of(type));
  // With padding, the length is an odd number of units, so the alignment is not better than
  // promised.
  m.ld = (columns + unit - 1) / unit * unit + round_.padding * unit;
  m.stride = matrices > 1 ? rows * m.ld + round_.padding * unit : 0;
  m.offset = alignment < 16 ? unit : 0;
  const bool empty = rows == 0 || columns == 0;
  m.data.assign(static_cast<std::size_t>(m.end_of(matrices - 1, empty ? 0 : rows - 1)), between);
  return m;
}

void Operands::fill(Matrix& m, std::uint64_t seed) const {
  std::mt19937_64 generator(seed);
  for (std::int64_t i = 0; i < m.matrices * m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c)
      m.set(i / m.rows, i % m.rows, c, static_cast<int>(generator() % 7) - 3);
}

/// Any numbers that the type holds, its ends more often.
void Operands::fill_zero_points(Matrix& m, std::uint64_t seed) const {
  std::mt19937_64 generator(seed);
  for (std::int64_t i = 0; i < m.matrices * m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const int any = static_cast<int>(generator() % 256) - 128;
      const int ends[] = {-128, 127, any, any};
      m.set(i / m.rows, i % m.rows, c, ends[generator() % 4]);
    }
}

/// Numbers of 1 to 4 with 12 fraction bits.
void Operands::make_fractions(Matrix& m, std::uint64_t seed) const {
  std::mt19937_64 generator(seed);
  for (std::int64_t i = 0; i < m.matrices * m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const std::uint64_t bits = generator();
      const double value = double(1 + bits % 3) + double(bits / 8 % 16) / 4096;
      test::encode(m.type, bits / 128 % 2 ? value : -value, m.at(i / m.rows, i % m.rows, c));
    }
}

void Operands::make_steep(Matrix& m, bool k_is_row) const {
  for (std::int64_t i = 0; i < m.matrices * m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c) {
      std::byte* const at = m.at(i / m.rows, i % m.rows, c);
      if ((k_is_row ? i % m.rows : c) < kPromotedEvery)
        test::encode(m.type, 64 * test::decode(m.type, at), at);
    }
}

/// Numbers of as many bits as the type has. The exponents are those of `Values`.
void Operands::make_inexact(Matrix& m, bool of_a, std::uint64_t seed) const {
  std::mt19937_64 generator(seed);
  const bool k_is_row = of_a ? problem_.a.transposed : !problem_.b.transposed;
  // A row's exponent is below what integers hold in every second product.
  const bool f32 = problem_.a.type == DType::f32, other = seed % 4 >= 2;
  const int largest = f32 ? 70 : 390, smallest = f32 ? (other ? -130 : -80) : other ? -1060 : -330;
  // Halves hold the second of these, and not the last.
  const int apart = !f32 ? 6 : problem_.k % 2 == 0 ? 12 : 30;
  const auto exponent_of = [&](std::int64_t k, std::int64_t line) {
    switch (round_.values) {
      case Values::spread:
        return static_cast<int>(generator() % 21) - 10;
      case Values::opposed:
        return static_cast<int>(k % 2) * (of_a ? apart : -apart);
      case Values::extreme:
        return !of_a ? static_cast<int>(line % 3) * 20
                     : std::array{0, largest, smallest, -3}[line % 4];
      default:
        return 0;
    }
  };
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const std::int64_t k = k_is_row ? i : c, line = k_is_row ? c : i;
      const double value = double(1 + (generator() >> 11)) * 0x1p-53;
      const bool zero = round_.values == Values::extreme && of_a && line % 16 == 9;
      const bool negative = generator() % 2 == 0;
      const double scaled = zero ? 0 : std::ldexp(value, exponent_of(k, line));
      test::encode(m.type, negative ? -scaled : scaled, m.at(0, i, c));
    }
}

/// Compares with products in more bits than the type has.
std::optional<Difference> Operands::inexact_difference(Matrix& got, std::optional<bool> native) {
  const Problem& p = problem_;
  const std::vector<double> a = as_numbers(a_, 0, p.a.transposed),
                            b = as_numbers(b_, 0, p.b.transposed);
  const auto depth = static_cast<std::size_t>(p.k), n = static_cast<std::size_t>(p.n);
  if (native == true && round_.values == Values::alike)
    return Difference{0, "the native product ran", true};
  const auto terms = static_cast<long double>(p.k);
  const bool f32 = p.a.type == DType::f32;
  const long double unit = f32 ? 0x1p-24L : 0x1p-53L, least = f32 ? 0x1p-149L : 0x1p-1074L;
  const long double tau = native.value_or(true) ? (terms + 2) * unit
                          : f32                 ? 0x1p-20L + terms * unit
                                                : std::sqrt(terms) * unit;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      long double sum = 0, magnitudes = 0;
      for (std::size_t k = 0; k < depth; ++k) {
        const long double product =
            static_cast<long double>(a[static_cast<std::size_t>(i) * depth + k]) * b[k * n + j];
        sum += product;
        magnitudes += std::fabs(product);
      }
      const std::int64_t column = static_cast<std::int64_t>(j);
      const double is = test::decode(got.type, got.at(0, i, column));
      const long double allowed =
          (tau * magnitudes + unit * std::fabs(sum)) * (1 + 0x1p-9L) + p.k * least;
      if (std::fabs(is - sum) <= allowed) continue;
      const std::int64_t byte = got.byte_of(0, i, column);
      std::ostringstream text;
      text << element_at(got, "C", 1, byte) << " is " << is << " instead of " << sum << ": off by "
           << std::fabs(is - sum) / magnitudes << " |A| |B|, allowed is " << tau;
      return Difference{static_cast<std::size_t>(byte), text.str(), true};
    }
  return std::nullopt;
}

/// f32x3 gets no infinities, because it has its own results for them (docs/measuring.md).
void Operands::make_special(Matrix& m, std::uint64_t seed) const {
  if (is_integer(m.type) || m.rows == 0 || m.columns == 0) return;
  std::mt19937_64 generator(seed);
  const auto place = [&] {
    const auto below = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(limit));
    };
    const std::int64_t batch = below(problem_.batch), row = below(m.rows);
    return m.at(batch, row, below(m.columns));
  };
  test::encode(m.type, std::numeric_limits<double>::quiet_NaN(), place());
  if (m.type == DType::e4m3 || problem_.math == MathMode::f32x3) return;
  std::byte* const at = place();
  if (m.type == DType::e5m2)
    *at = std::byte{0x7c};  // encode() never makes the infinity of this type
  else
    test::encode(m.type, -std::numeric_limits<double>::infinity(), at);
}

Operands::Operands(const Problem& problem, const Round& round, std::uint64_t seed)
    : problem_(problem),
      round_(round),
      a_(make(problem.a.type, rows_a(problem), min_lda(problem), problem.a.alignment, kNaNs,
              round.same_a ? 1 : matrices_a(problem))),
      b_(make(problem.b.type, rows_b(problem), min_ldb(problem), problem.b.alignment, kNaNs,
              round.same_b ? 1 : matrices_b(problem))),
      c_(make(problem.c.type, problem.m, problem.n, problem.c.alignment, kCanary,
              matrices_c(problem))) {
  fill(a_, seed);
  fill(b_, seed + 1);
  if (round.values == Values::special) {
    make_special(a_, seed + 3);
    make_special(b_, seed + 4);
  }
  if (round.values == Values::fractions_a) make_fractions(a_, seed + 5);
  if (round.values == Values::fractions_b) make_fractions(b_, seed + 6);
  if (round.values == Values::steep) {
    make_steep(a_, problem.a.transposed);
    make_steep(b_, !problem.b.transposed);
  }
  if (is_inexact(round.values)) {
    make_inexact(a_, true, seed + 9);
    make_inexact(b_, false, seed + 10);
  }
  if (round.values == Values::tagged_k || round.values == Values::tagged_line) tag();
  fill(c_, seed + 2);
  add_operands(seed + 7);
  add_groups(seed + 8);
  if (round.beta != 0) return;
  for (std::int64_t i = 0; i < problem.batch * problem.m; ++i) {
    std::byte* const row = c_.at(i / problem.m, i % problem.m, 0);
    std::fill(row, row + problem.n * bytes_of(problem.c.type), kNaNs);
  }
}

/// Tags elements with op(A)'s row i and column k and op(B)'s row k and column j, as stored.
void Operands::tag() {
  const auto fill_with = [&](Matrix& m, bool along_rows) {
    for (std::int64_t i = 0; i < m.matrices * m.rows; ++i)
      for (std::int64_t c = 0; c < m.columns; ++c)
        m.set(i / m.rows, i % m.rows, c,
              static_cast<double>(1 + (along_rows ? i % m.rows : c) % kTags));
  };
  // Whether k is the index of the stored row.
  const bool a_by_k = problem_.a.transposed, b_by_k = !problem_.b.transposed;
  fill_with(a_, a_by_k == (round_.values == Values::tagged_k));
  fill_with(b_, b_by_k == (round_.values == Values::tagged_k));
}

/// Row-major, or transposed when `transpose`.
std::vector<double> Operands::as_numbers(Matrix& m, std::int64_t batch, bool transpose) const {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < (transpose ? m.columns : m.rows); ++i)
    for (std::int64_t j = 0; j < (transpose ? m.rows : m.columns); ++j)
      numbers.push_back(m.number(batch, transpose ? j : i, transpose ? i : j));
  if (round_.values == Values::fractions_a || round_.values == Values::fractions_b)
    std::transform(numbers.begin(), numbers.end(), numbers.begin(), rounded_to_tf32);
  return numbers;
}

void Operands::add_operands(std::uint64_t seed) {
  if (!problem_.epilogue) return;
  for (const EpilogueSlot& slot : problem_.epilogue->operands) {
    const DType type = type_of(slot, problem_.c.type);
    const EpilogueShape shape = shape_of(slot, problem_);
    const bool read = slot.use == EpilogueUse::read, matrix = slot.over == EpilogueOver::elements;
    // Kernels may read aligned matrices in another way.
    const int aligned = is_of_blocks(slot.over) ? 16 : problem_.c.alignment;
    const int alignment = (matrix || is_of_blocks(slot.over)) && round_.values == Values::whole
                              ? aligned
                              : bytes_of(type);
    const std::int64_t matrices =
        read && round_.same_b ? 1 : (is_of_rows(slot.over) ? matrices_c(problem_) : problem_.batch);
    Matrix& made = operands_.emplace_back(
        make(type, shape.rows, shape.columns, alignment, read ? kNaNs : kCanary, matrices));
    if (read && slot.over == EpilogueOver::zero_points)
      fill_zero_points(made, seed + operands_.size());
    else if (read)
      fill(made, seed + operands_.size());
  }
}

/// Numbers of rows of every kind: none, all, and such that no caller should pass.
void Operands::add_groups(std::uint64_t seed) {
  if (!is_grouped(problem_)) return;
  std::mt19937_64 generator(seed);
  const std::int64_t most = most_of(problem_);
  std::uniform_int_distribution<std::int64_t> inside(0, most), any(-9, most + 9);
  const bool bad = generator() % 4 == 0;
  for (std::int64_t i = 0; i < problem_.batch; ++i)
    group_rows_.push_back(static_cast<std::int32_t>(bad ? any(generator) : inside(generator)));
  if (problem_.grouping != Grouping::counts && !bad)
    std::sort(group_rows_.begin(), group_rows_.end());
  const std::uint64_t special = generator() % 8;
  if (special == 0) std::fill(group_rows_.begin(), group_rows_.end(), 0);
  if (special <= 2) group_rows_.back() = static_cast<std::int32_t>(most);
  if (special == 1) std::fill(group_rows_.begin(), group_rows_.end() - 1, 0);
}

/// The product of step k, of elements as they are stored.
double Operands::product_of(double a, double b, std::int64_t batch, std::int64_t i, std::int64_t j,
                            std::int64_t k) {
  if (!has_scales(problem_)) return a * b;
  if (problem_.pointers) batch = problem_.batch - 1 - batch;
  double scale = 1;
  for (std::size_t slot = 0; slot < operands_.size(); ++slot) {
    const EpilogueSlot& form = problem_.epilogue->operands[slot];
    if (!is_of_blocks(form.over)) continue;
    const std::int64_t place = form.over == EpilogueOver::row_blocks ? i
                               : form.over == EpilogueOver::tiles    ? j / kScaledSteps
                                                                     : j;
    const std::int64_t block = k / form.steps;
    const double number = test::decode(
        operands_[slot].type,
        operands_[slot].at(batch, form.k_first ? block : place, form.k_first ? place : block));
    if (is_scale(form.over))
      scale *= number;
    else
      b -= number;
  }
  return a * b * scale;
}

/// C's element; what is written and summed goes to `operands` and `sums`.
double Operands::epilogue_of(double acc, std::int64_t batch, std::int64_t i, std::int64_t j,
                             std::vector<Matrix>& operands,
                             std::vector<std::vector<double>>& sums) {
  const EpilogueForm& form = *problem_.epilogue;
  if (problem_.pointers) batch = problem_.batch - 1 - batch;  // the last matrix is the first
  std::vector<std::byte*> places;
  std::vector<double> values, results;
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    const EpilogueOver over = form.operands[slot].over;
    const bool matrix = over == EpilogueOver::elements;
    if (is_of_blocks(over)) {  // of the products
      places.push_back(nullptr);
      values.push_back(0);
      continue;
    }
    places.push_back(
        operands[slot].at(batch, matrix ? i : 0,
                          over == EpilogueOver::all ? 0 : (over == EpilogueOver::rows ? i : j)));
    values.push_back(form.operands[slot].use == EpilogueUse::read
                         ? test::decode(operands[slot].type, places.back())
                         : 0);
  }
  const double c = evaluate(form, acc, values, &results);
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    if (form.operands[slot].use == EpilogueUse::written)
      test::encode(operands[slot].type, results[slot], places[slot]);
    if (form.operands[slot].use == EpilogueUse::summed) {
      double& sum = sums[slot][static_cast<std::size_t>(j)];
      sum += results[slot];
      test::encode(operands[slot].type, sum, places[slot]);
    }
  }
  return c;
}

void Operands::multiply_by_definition(Matrix& c, std::vector<Matrix>& operands) {
  const Problem& p = problem_;
  const auto n = static_cast<std::size_t>(p.n), depth = static_cast<std::size_t>(p.k);
  const std::vector<RowRange> ranges =
      is_grouped(p) ? row_ranges(p, group_rows_.data())
                    : std::vector<RowRange>(static_cast<std::size_t>(p.batch), RowRange{0, p.m});
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    const bool by_depth = p.grouping == Grouping::depth;
    const RowRange of_group = ranges[static_cast<std::size_t>(batch)];
    const RowRange range = by_depth ? RowRange{0, p.m} : of_group;
    const RowRange steps = by_depth ? of_group : RowRange{0, p.k};
    if (range.begin == range.end) continue;
    const std::vector<double> a = as_numbers(a_, batch, p.a.transposed);
    const std::vector<double> b = as_numbers(b_, batch, p.b.transposed);
    std::vector<std::vector<double>> columns(operands.size(), std::vector<double>(n));
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::vector<double> sums(n, 0.0);
      for (auto k = static_cast<std::size_t>(steps.begin); k < static_cast<std::size_t>(steps.end);
           ++k)
        for (std::size_t j = 0; j < n; ++j)
          sums[j] += product_of(a[static_cast<std::size_t>(i) * depth + k], b[k * n + j], batch, i,
                                static_cast<std::int64_t>(j), static_cast<std::int64_t>(k));
      for (std::size_t j = 0; j < n; ++j) {
        std::byte* const at = c.at(batch, i, static_cast<std::int64_t>(j));
        const double before = round_.beta == 0 ? 0 : round_.beta * test::decode(c.type, at);
        const double of_sum = round_.alpha == 0 ? 0 : round_.alpha * sums[j];
        double value = of_sum + before;
        if (p.epilogue)
          value = epilogue_of(value, batch, i, static_cast<std::int64_t>(j), operands, columns);
        test::encode(c.type, value, at);
      }
    }
  }
}

Operands::OnDevice Operands::upload(Device& device) const {
  const auto put = [&](const Matrix& m) {
    DeviceBuffer buffer(device, m.bytes());
    device.copy_to_device(buffer.data(), m.data.data(), m.bytes(), nullptr);
    return buffer;
  };
  OnDevice on;
  on.a = put(a_), on.b = put(b_), on.c = put(c_);
  for (const Matrix& operand : operands_) {
    const DeviceBuffer& made = on.operands.emplace_back(put(operand));
    // One for the rows of all products has no stride.
    const EpilogueOver over = problem_.epilogue->operands[on.bound.size()].over;
    const bool through = problem_.grouping == Grouping::rows && is_of_rows(over);
    on.bound.push_back({static_cast<std::byte*>(made.data()) + operand.byte_of(0, 0, 0), operand.ld,
                        through ? kNotUsed : operand.stride, 0});
  }
  if (is_grouped(problem_)) {
    const auto bytes = static_cast<std::int64_t>(group_rows_.size() * sizeof(std::int32_t));
    on.group_rows = DeviceBuffer(device, bytes);
    device.copy_to_device(on.group_rows.data(), group_rows_.data(), bytes, nullptr);
    device.synchronize(nullptr);
  }
  if (problem_.pointers) {
    on.pointers_a = pointers_to(device, a_, on.a);
    on.pointers_b = pointers_to(device, b_, on.b);
    on.pointers_c = pointers_to(device, c_, on.c);
  }
  return on;
}

/// The last matrix is first, so that no stride leads from one product to the next.
DeviceBuffer Operands::pointers_to(Device& device, const Matrix& m,
                                   const DeviceBuffer& data) const {
  std::vector<void*> pointers;
  for (std::int64_t i = problem_.batch; i-- > 0;)
    pointers.push_back(static_cast<std::byte*>(data.data()) + m.byte_of(i, 0, 0));
  const auto bytes = static_cast<std::int64_t>(pointers.size() * sizeof(void*));
  DeviceBuffer buffer(device, bytes);
  device.copy_to_device(buffer.data(), pointers.data(), bytes, nullptr);
  device.synchronize(nullptr);
  return buffer;
}

Call Operands::call(const OnDevice& on) const {
  const auto first = [](const DeviceBuffer& buffer, const Matrix& m) {
    return static_cast<std::byte*>(buffer.data()) + m.byte_of(0, 0, 0);
  };
  Call call;
  call.a = first(on.a, a_), call.lda = a_.ld, call.stride_a = a_.stride;
  call.b = first(on.b, b_), call.ldb = b_.ld, call.stride_b = b_.stride;
  call.c = first(on.c, c_), call.ldc = c_.ld, call.stride_c = c_.stride;
  call.alpha = round_.alpha, call.beta = round_.beta;
  call.operands = on.bound;
  call.group_rows = static_cast<const std::int32_t*>(on.group_rows.data());
  if (is_grouped(problem_)) {
    if (matrices_a(problem_) == 1) call.stride_a = kNotUsed;
    if (matrices_b(problem_) == 1) call.stride_b = kNotUsed;
    if (matrices_c(problem_) == 1) call.stride_c = kNotUsed;
  }
  if (problem_.pointers) {
    call.a = on.pointers_a.data(), call.b = on.pointers_b.data(), call.c = on.pointers_c.data();
    call.stride_a = call.stride_b = call.stride_c = kNotUsed;
  }
  return call;
}

/// "C[3][5]", or in a batch "C[1][3][5]". A gap between rows has a column past the last.
std::string Operands::element_at(const Matrix& matrix, const std::string& name, std::int64_t batch,
                                 std::int64_t byte) {
  std::int64_t at = byte / bytes_of(matrix.type) - matrix.offset;
  std::string text = name;
  if (batch > 1 && matrix.stride > 0)
    text += "[" + std::to_string(at / matrix.stride) + "]", at %= matrix.stride;
  return text + "[" + std::to_string(at / matrix.ld) + "][" + std::to_string(at % matrix.ld) + "]";
}

std::optional<Difference> Operands::difference(const Matrix& got, const Matrix& expected,
                                               const std::string& name) const {
  const auto element = static_cast<std::size_t>(bytes_of(got.type));
  for (std::size_t i = 0; i < got.data.size(); i += element) {
    const std::byte *x = &got.data[i], *y = &expected.data[i];
    if (std::equal(x, x + element, y)) continue;
    const double is = test::decode(got.type, x), should_be = test::decode(got.type, y);
    // Zeros of either sign and NaN with any bits are right; the canary is neither.
    if (is == should_be || (std::isnan(is) && std::isnan(should_be))) continue;
    return Difference{i,
                      element_at(got, name, problem_.batch, static_cast<std::int64_t>(i)) + " is " +
                          std::to_string(is) + " instead of " + std::to_string(should_be),
                      true};
  }
  return std::nullopt;
}

std::optional<Difference> Operands::difference(Device& device, const Executable& executable) {
  Matrix expected = c_, got = c_;
  std::vector<Matrix> results = operands_, found = operands_;
  if (!is_inexact(round_.values)) multiply_by_definition(expected, results);
  std::optional<bool> native;
  {
    const std::lock_guard lock(gpu_mutex());
    const OnDevice on = upload(device);
    const PoisonedGaps poisoned[] = {{on.a.data(), a_, problem_.batch},
                                     {on.b.data(), b_, problem_.batch},
                                     {on.c.data(), c_, problem_.batch}};
    const DeviceBuffer workspace(device, executable.plan().workspace_bytes);
    executable.launch(call(on), workspace.data());
    if (is_inexact(round_.values)) native = native_ran(device, executable.plan(), workspace.data());
    poisoned[2].lift();
    device.copy_to_host(got.data.data(), on.c.data(), c_.bytes(), nullptr);
    for (std::size_t slot = 0; slot < found.size(); ++slot)
      device.copy_to_host(found[slot].data.data(), on.operands[slot].data(), found[slot].bytes(),
                          nullptr);
  }
  if (is_inexact(round_.values)) return inexact_difference(got, native);
  if (auto wrong = difference(got, expected, "C")) return wrong;
  for (std::size_t slot = 0; slot < found.size(); ++slot)
    if (auto wrong = difference(found[slot], results[slot], "p" + std::to_string(slot))) {
      wrong->in_c = false;
      return wrong;
    }
  return std::nullopt;
}

void Operands::watch(Device& device, const Executable& executable, std::size_t index) {
#if defined(TILEWISE_CHECK_THREADS)
  const OnDevice on = upload(device);
  void* const self = __tsan_get_current_fiber();
  void* const watcher = __tsan_create_fiber(0);
  __tsan_set_fiber_name(watcher, "the watch on the wrong element");
  __tsan_switch_to_fiber(watcher, __tsan_switch_to_fiber_no_sync);
  __tsan_write1(static_cast<std::byte*>(on.c.data()) + index);
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
  executable.launch(call(on));
  // Adds a synchronization edge each way: the buffers are released after the watch.
  __tsan_switch_to_fiber(watcher, 0);
  __tsan_switch_to_fiber(self, 0);
  __tsan_destroy_fiber(watcher);
#else
  static_cast<void>(device), static_cast<void>(executable), static_cast<void>(index);
#endif
}

}  // namespace tilewise::check
