#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "tuner/reference.hpp"
#include "tuner/reference/block.hpp"
#include "tuner/reference/generate.hpp"
#include "tuner/reference/parallel.hpp"
#include "tuner/reference/product.hpp"

namespace tilewise {
namespace {

constexpr std::array<char, 8> kMagic = {'t', 'w', 'r', 'e', 'f', '0', '0', '2'};
constexpr DataSet kSets[] = {DataSet::exact, DataSet::bounded};

// Rows (or columns) to look at exactly: the first and last, both sides of the edges of small tiles
// and of the last tile, and a few anywhere.
std::int64_t choose_samples(std::int64_t extent, std::uint64_t seed,
                            std::array<std::int64_t, BlockLayout::kMaxSamples>& samples) {
  std::vector<std::int64_t> chosen = {0, 1, extent - 2, extent - 1, extent / 2};
  for (const std::int64_t tile : {16, 32, 64, 128, 256}) {
    chosen.push_back(tile - 1);
    chosen.push_back(tile);
  }
  for (const std::int64_t tile : {64, 128, 256}) {
    chosen.push_back((extent - 1) / tile * tile);
    chosen.push_back((extent - 1) / tile * tile - 1);
  }
  for (std::uint64_t i = 0; i < 6; ++i) {
    chosen.push_back(
        static_cast<std::int64_t>(mixed_bits(seed, i) % static_cast<std::uint64_t>(extent)));
  }
  std::erase_if(chosen, [&](std::int64_t i) { return i < 0 || i >= extent; });
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::copy(chosen.begin(), chosen.end(), samples.begin());
  return static_cast<std::int64_t>(chosen.size());
}

float round_up_f32(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest < value ? std::nextafter(nearest, std::numeric_limits<float>::infinity())
                         : nearest;
}

// A sink that stores each value of a block, converted, at its place of a row-major array.
template <typename T, typename Convert>
BlockSink store(T* to, std::int64_t ld, Convert convert) {
  return [=](const ProductBlock& block) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const double* from = block.values + i * block.ld;
      T* row = to + (block.row + i) * ld + block.column;
      for (std::int64_t j = 0; j < block.columns; ++j) row[j] = convert(from[j]);
    }
  };
}
BlockSink store(double* to, std::int64_t ld) {
  return store(to, ld, [](double value) { return value; });
}

// An operand in memory, for as long as it is multiplied.
class Generated {
 public:
  Generated(const TestData& data, int threads)
      : memory_(sizeof(float) *
                static_cast<std::size_t>(std::max<std::int64_t>(1, data.rows() * data.columns()))),
        ld_(data.columns()) {
    data.fill_all(reinterpret_cast<float*>(memory_.data()), threads);
  }
  MatrixView view(bool transposed) const {
    return MatrixView::of(reinterpret_cast<const float*>(memory_.data()), ld_, transposed);
  }

 private:
  SharedBlock memory_;  // says in numbers when there is not enough
  std::int64_t ld_;
};

// The most that is generated at a time: A and B, then C0 where sums of it are kept.
std::size_t generated_bytes(const Problem& problem, bool sampled) {
  const std::int64_t operands =
      rows_a(problem) * min_lda(problem) + rows_b(problem) * min_ldb(problem);
  const std::int64_t elements = std::max(operands, sampled ? problem.m * problem.n : 0);
  return sizeof(float) * static_cast<std::size_t>(elements);
}

// Fills in what a block holds of one data set.
struct Computation {
  const Problem& problem;
  const BlockLayout& layout;
  DataSet set;
  int threads;

  Generated generated(Operand operand) const {
    return {TestData(problem, set, operand, layout.header().seed), threads};
  }

  void run() const {
    {
      const Generated a = generated(Operand::a), b = generated(Operand::b);
      const MatrixView left = a.view(a_transposed(problem.layout));
      const MatrixView right = b.view(b_transposed(problem.layout));
      if (!layout.header().sampled) return multiply(layout.full, left, right);
      sampled_rows(left, right);
      sampled_columns(left, right);
      freivalds_products(left, right);
    }
    freivalds_c0(generated(Operand::c0).view(false));
  }

  // Products of op(A)'s and op(B)'s given parts.
  void multiply(const StoredProducts& to, const MatrixView& left, const MatrixView& right) const {
    if (set == DataSet::exact) {
      const auto as_f32 = [](double value) { return static_cast<float>(value); };
      product(to.rows, to.columns, problem.k, left, right, store(to.exact, to.columns, as_f32), {},
              threads);
    } else {
      product(to.rows, to.columns, problem.k, left, right, store(to.bounded, to.columns),
              store(to.absolute, to.columns, round_up_f32), threads);
    }
  }

  void sampled_rows(const MatrixView& from, const MatrixView& right) const {
    const auto& header = layout.header();
    std::vector<float> rows(static_cast<std::size_t>(header.row_count * problem.k));
    for (std::int64_t r = 0; r < header.row_count; ++r) {
      const std::int64_t row = header.rows[static_cast<std::size_t>(r)];
      for (std::int64_t p = 0; p < problem.k; ++p) {
        rows[static_cast<std::size_t>(r * problem.k + p)] =
            from.f32[from.transposed ? p * from.ld + row : row * from.ld + p];
      }
    }
    multiply(layout.rows, MatrixView::of(rows.data(), problem.k), right);
  }

  void sampled_columns(const MatrixView& left, const MatrixView& from) const {
    const auto& header = layout.header();
    const std::int64_t count = header.column_count;
    std::vector<float> columns(static_cast<std::size_t>(problem.k * count));
    for (std::int64_t p = 0; p < problem.k; ++p) {
      for (std::int64_t c = 0; c < count; ++c) {
        const std::int64_t column = header.columns[static_cast<std::size_t>(c)];
        columns[static_cast<std::size_t>(p * count + c)] =
            from.f32[from.transposed ? column * from.ld + p : p * from.ld + column];
      }
    }
    multiply(layout.columns, left, MatrixView::of(columns.data(), count));
  }

  static constexpr std::int64_t kWidth = BlockLayout::kVectors;
  const FreivaldsVectors& vectors() const { return layout.vectors[static_cast<std::size_t>(set)]; }

  // A (B x), and for the bounds |A| (|B| |x|).
  void freivalds_products(const MatrixView& left, const MatrixView& right) const {
    const bool bounds = set == DataSet::bounded;
    std::vector<double> bx(static_cast<std::size_t>(problem.k * kWidth));
    std::vector<double> absolute_bx(bounds ? bx.size() : 0);
    product(problem.k, kWidth, problem.n, right, MatrixView::of(layout.x, kWidth),
            store(bx.data(), kWidth), bounds ? store(absolute_bx.data(), kWidth) : BlockSink{},
            threads);
    product(problem.m, kWidth, problem.k, left, MatrixView::of(bx.data(), kWidth),
            store(vectors().product, kWidth), {}, threads);
    if (bounds) {
      product(problem.m, kWidth, problem.k, left, MatrixView::of(absolute_bx.data(), kWidth), {},
              store(vectors().absolute_product, kWidth), threads);
    }
  }

  void freivalds_c0(const MatrixView& c0) const {
    product(problem.m, kWidth, problem.n, c0, MatrixView::of(layout.x, kWidth),
            store(vectors().c0, kWidth),
            set == DataSet::bounded ? store(vectors().absolute_c0, kWidth) : BlockSink{}, threads);
  }
};

void fill_x(const Problem& problem, const BlockLayout& layout) {
  for (std::int64_t i = 0; i < problem.n * BlockLayout::kVectors; ++i) {
    const std::uint64_t bits = mixed_bits(~layout.header().seed, static_cast<std::uint64_t>(i));
    const auto magnitude = static_cast<double>(1 + (bits & 3));
    layout.x[i] = (bits & 4) ? magnitude : -magnitude;
  }
}

void check(const Problem& problem) {
  if (problem.m < 0 || problem.n < 0 || problem.k < 0) {
    throw Error(ErrorKind::invalid_argument,
                "sizes must not be negative, not " + size_text(problem));
  }
  if (problem.batch != 1) {
    throw Error(ErrorKind::unsupported,
                "the reference multiplies one pair of matrices, not a batch of " +
                    std::to_string(problem.batch));
  }
  // Sizes may be as large as 2^40: beyond what 64 bits count, let alone what any memory holds.
  constexpr double kAbsurdBytes = 0x1p56;
  if (!(operand_bytes(problem) < kAbsurdBytes)) {
    throw Error(ErrorKind::out_of_memory,
                size_text(problem) + ": A, B and C alone take " +
                    std::to_string(static_cast<std::int64_t>(operand_bytes(problem) * 0x1p-40)) +
                    " TiB");
  }
}

}  // namespace

Reference::Reference(const Problem& problem, SharedBlock block)
    : problem_(problem), block_(std::move(block)) {}

Reference Reference::compute(const Problem& problem, std::uint64_t seed, int threads,
                             const ReferenceLimits& limits) {
  check(problem);
  BlockLayout::Header header{};
  header.magic = kMagic;
  header.problem_hash = block_hash(problem);
  header.seed = seed;
  const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n);
  header.sampled = elements > 0 && (flops_of(problem) > limits.flops || elements > limits.elements);
  if (header.sampled) {
    header.row_count = choose_samples(problem.m, mixed_bits(seed, 100), header.rows);
    header.column_count = choose_samples(problem.n, mixed_bits(seed, 101), header.columns);
  }
  const std::size_t block_bytes = BlockLayout::bytes_for(problem, header);
  SharedBlock::require(block_bytes + generated_bytes(problem, header.sampled != 0));
  Reference reference(problem, SharedBlock(block_bytes));
  std::memcpy(reference.block_.data(), &header, sizeof header);
  const BlockLayout layout(problem, reference.block_.data());
  if (header.sampled) fill_x(problem, layout);
  for (const DataSet set : kSets) Computation{problem, layout, set, threads}.run();
  return reference;
}

Reference Reference::attach(const Problem& problem, SharedBlock block) {
  BlockLayout::Header header{};
  if (block.bytes() >= sizeof header) std::memcpy(&header, block.data(), sizeof header);
  if (header.magic != kMagic || header.problem_hash != block_hash(problem) ||
      BlockLayout::bytes_for(problem, header) != block.bytes()) {
    throw Error(ErrorKind::invalid_argument,
                "the shared block is not the reference of " + to_string(problem));
  }
  return {problem, std::move(block)};
}

bool Reference::sampled() const {
  return BlockLayout(problem_, block_.data()).header().sampled != 0;
}

TestData Reference::data(DataSet set, Operand operand) const {
  return {problem_, set, operand, BlockLayout(problem_, block_.data()).header().seed};
}

Scalars Reference::scalars(DataSet set, int index) {
  if (index == 0) return {1, 0};
  if (set == DataSet::exact) return {3, -2};
  return {double{0.7F}, double{-1.3F}};  // what the accumulator's type can hold
}

}  // namespace tilewise
