#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "tuner/reference/block.hpp"
#include "tuner/reference/generate.hpp"
#include "tuner/reference/product.hpp"
#include "tuner/reference/reference.hpp"
#include "tuner/reference/strict.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

constexpr std::array<char, 8> kMagic = {'t', 'w', 'r', 'e', 'f', '0', '0', '3'};
constexpr DataSet kStored[] = {DataSet::exact, DataSet::bounded};
// Smaller matrices of a batch are computed in parallel, one thread each.
constexpr double kSmallFlops = 2.0 * 256 * 256 * 256;

// Rows (or columns) to store exactly, for matrices of `extent` in a batch: the first and last, both
// sides of the edges of small tiles and of the last tile, and a few random ones.
std::int64_t choose_samples(std::int64_t extent, std::int64_t batch, std::uint64_t seed,
                            std::array<std::int64_t, BlockLayout::kMaxSamples>& samples,
                            const std::vector<std::int64_t>& more = {}) {
  const std::int64_t all = extent * batch;
  std::vector<std::int64_t> chosen = {0, 1, extent - 1, all - extent, all - 2, all - 1, all / 2};
  for (const std::int64_t tile : {16, 32, 64, 128, 256}) {
    chosen.push_back(tile - 1);
    chosen.push_back(tile);
  }
  for (const std::int64_t tile : {64, 128, 256}) {
    chosen.push_back(all - 1 - (extent - 1) % tile);
    chosen.push_back(all - 2 - (extent - 1) % tile);
  }
  for (std::uint64_t i = 0; i < 6; ++i) {
    chosen.push_back(
        static_cast<std::int64_t>(mixed_bits(seed, i) % static_cast<std::uint64_t>(all)));
  }
  chosen.insert(chosen.end(), more.begin(), more.end());
  std::erase_if(chosen, [&](std::int64_t i) { return i < 0 || i >= all; });
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  while (chosen.size() > samples.size()) chosen.erase(chosen.begin() + std::ssize(chosen) / 2);
  std::copy(chosen.begin(), chosen.end(), samples.begin());
  return static_cast<std::int64_t>(chosen.size());
}

// Both sides of where the rows of the first and of the last products of a group begin.
std::vector<std::int64_t> edges_of_products(const Problem& problem) {
  std::vector<std::int64_t> edges;
  if (problem.grouping != Grouping::rows) return edges;
  const ProductRows rows(problem);
  constexpr std::int64_t some = 3;
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    if (i > some && i < problem.batch - some) continue;
    const RowRange range = rows.of(i);
    if (range.begin < range.end) edges.insert(edges.end(), {range.begin - 1, range.begin});
  }
  return edges;
}

float round_up_f32(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest < value ? std::nextafter(nearest, std::numeric_limits<float>::infinity())
                         : nearest;
}

std::int64_t matrices_of(const Problem& problem, DataOf operand) {
  return operand == DataOf::a   ? matrices_a(problem)
         : operand == DataOf::b ? matrices_b(problem)
                                : matrices_c(problem);
}

// A sink that converts each value of a block and stores it in a row-major array.
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

// Memory that one matrix after the other uses: new pages for each take longer than generating it.
class Memory {
 public:
  template <typename T>
  T* of(std::int64_t count) {
    const auto bytes = sizeof(T) * static_cast<std::size_t>(std::max<std::int64_t>(1, count));
    if (bytes > bytes_) {
      data_.reset();
      data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t bytes_ = 0;
};

// One matrix of an operand in `memory` while it is multiplied: float, or double for f64.
class Generated {
 public:
  Generated(Memory& memory, const TestData& data, std::int64_t matrix, std::int64_t batch,
            int threads)
      : ld_(data.columns()) {
    const std::int64_t count = data.rows() / batch * ld_;
    if (data.type() == DType::f64) {
      doubles_ = fill(memory.of<double>(count), data, matrix * count, count, threads);
    } else {
      floats_ = fill(memory.of<float>(count), data, matrix * count, count, threads);
    }
  }
  // From row `first` of op(X) on.
  MatrixView view(bool transposed, std::int64_t first = 0) const {
    const std::int64_t skipped = transposed ? first : first * ld_;
    return doubles_ ? MatrixView::of(doubles_ + skipped, ld_, transposed)
                    : MatrixView::of(floats_ + skipped, ld_, transposed);
  }
  // From column `first` of op(X) on.
  MatrixView view_from_column(bool transposed, std::int64_t first) const {
    MatrixView from = view(!transposed, first);
    from.transposed = transposed;
    return from;
  }

 private:
  template <typename Wide>
  static Wide* fill(Wide* values, const TestData& data, std::int64_t first, std::int64_t count,
                    int threads) {
    constexpr std::int64_t chunk = 1 << 16;
    parallel_for(ceil_div(count, chunk), threads, [&](std::int64_t index, int) {
      const std::int64_t from = index * chunk;
      data.values(first + from, std::min(chunk, count - from), values + from);
    });
    return values;
  }

  std::int64_t ld_;
  float* floats_ = nullptr;
  double* doubles_ = nullptr;
};

// Memory of what is generated for one product.
struct ProductMemory {
  Memory a, b_or_c0;
};

// The most bytes generated at a time: A, and B or then C0, where sums over it are stored.
std::size_t generated_bytes(const Problem& problem, bool sampled) {
  const std::int64_t a = rows_a(problem) * min_lda(problem);
  const std::int64_t b = rows_b(problem) * min_ldb(problem);
  const std::int64_t elements = a + std::max(b, sampled ? problem.m * problem.n : 0);
  const std::size_t wide = problem.a.type == DType::f64 ? sizeof(double) : sizeof(float);
  return wide * static_cast<std::size_t>(elements);
}

// Computes the values that a block stores for one data set.
struct Computation {
  const Problem& problem;
  const BlockLayout& layout;
  DataSet set;

  void run(int threads) const {
    const bool small =
        problem.batch > 1 && flops_of(problem) < kSmallFlops * static_cast<double>(problem.batch);
    const ProductRows rows(problem);
    const bool by_depth = problem.grouping == Grouping::depth;
    const std::vector<RowRange> depths =
        by_depth ? row_ranges(problem, group_rows_of(problem).data())
                 : std::vector<RowRange>(static_cast<std::size_t>(problem.batch), {0, problem.k});
    // A (and B) of all products, where they are one matrix.
    ProductMemory shared, kept;
    std::optional<Generated> a, b;
    if (matrices_a(problem) < problem.batch) a.emplace(generated(shared.a, DataOf::a, 0, threads));
    if (by_depth) b.emplace(generated(shared.b_or_c0, DataOf::b, 0, threads));
    parallel_for(problem.batch, small ? threads : 1, [&](std::int64_t product, int) {
      ProductMemory own;
      OneProduct{*this, product, rows.of(product), depths[static_cast<std::size_t>(product)],
                 small ? 1 : threads}
          .run(a ? &*a : nullptr, b ? &*b : nullptr, small ? own : kept);
    });
    if (problem.grouping == Grouping::rows && layout.header().sampled)
      OneProduct{*this, 0, {0, problem.m}, {}, threads}.freivalds_c0(
          generated(kept.b_or_c0, DataOf::c0, 0, threads).view(false));
  }

  Generated generated(Memory& memory, DataOf operand, std::int64_t matrix, int threads) const {
    return {memory, TestData(problem, set, operand, layout.header().seed), matrix,
            matrices_of(problem, operand), threads};
  }

  // The values that a block stores for one product of the batch.
  struct OneProduct {
    const Computation& of;
    std::int64_t product;
    RowRange range, depth;  // of its rows, and of k
    int threads;
    const Problem& problem = of.problem;
    const BlockLayout& layout = of.layout;
    std::int64_t first_row = range.begin, m = range.end - range.begin;
    std::int64_t k = depth.end - depth.begin;

    Generated generated(Memory& memory, DataOf operand) const {
      return of.generated(memory, operand, product, threads);
    }

    // all_a, all_b: A and B of all products; null: each has its own.
    void run(const Generated* all_a, const Generated* all_b, ProductMemory& memory) const {
      if (m == 0) return;
      const bool by_depth = all_b != nullptr;
      std::optional<Generated> own_a, own_b;
      if (!all_a) own_a.emplace(generated(memory.a, DataOf::a));
      if (!all_b) own_b.emplace(generated(memory.b_or_c0, DataOf::b));
      // By depth A is stored by k, and its columns of op(A) begin at the product's first.
      const MatrixView left = by_depth ? all_a->view_from_column(problem.a.transposed, depth.begin)
                              : all_a  ? all_a->view(problem.a.transposed, first_row)
                                       : own_a->view(problem.a.transposed);
      const MatrixView right = by_depth ? all_b->view(problem.b.transposed, depth.begin)
                                        : own_b->view(problem.b.transposed);
      if (!layout.header().sampled) {
        return multiply(layout.full.from_row(first_row, m), left, right);
      }
      sampled_rows(left, right);
      sampled_columns(left, right);
      freivalds_products(left, right);
      if (by_depth || !all_a) freivalds_c0(generated(memory.b_or_c0, DataOf::c0).view(false));
    }

    // Products of the given parts of op(A) and op(B).
    void multiply(const StoredProducts& to, const MatrixView& left, const MatrixView& right) const {
      if (of.set == DataSet::exact) {
        const auto as_integer = [](double value) { return static_cast<std::int32_t>(value); };
        tilewise::product(to.rows, to.columns, k, left, right,
                          store(to.exact, to.columns, as_integer), {}, threads);
      } else {
        tilewise::product(to.rows, to.columns, k, left, right, store(to.bounded, to.columns),
                          store(to.absolute, to.columns, round_up_f32), threads);
      }
    }

    void sampled_rows(const MatrixView& from, const MatrixView& right) const {
      const auto& header = layout.header();
      const auto end = header.rows.begin() + header.row_count;
      const auto first = std::lower_bound(header.rows.begin(), end, first_row);
      const auto last = std::lower_bound(first, end, range.end);
      std::vector<double> rows(static_cast<std::size_t>((last - first) * k));
      for (auto row = first; row != last; ++row) {
        double* to = rows.data() + (row - first) * k;
        for (std::int64_t p = 0; p < k; ++p) to[p] = from.at(*row - first_row, p);
      }
      multiply(layout.rows.from_row(first - header.rows.begin(), last - first),
               MatrixView::of(rows.data(), k), right);
    }

    void sampled_columns(const MatrixView& left, const MatrixView& from) const {
      const auto& header = layout.header();
      const std::int64_t count = header.column_count;
      std::vector<double> columns(static_cast<std::size_t>(k * count));
      for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t c = 0; c < count; ++c) {
          const std::int64_t column = header.columns[static_cast<std::size_t>(c)];
          columns[static_cast<std::size_t>(p * count + c)] = from.at(p, column);
        }
      }
      multiply(layout.columns.from_row(first_row, m), left, MatrixView::of(columns.data(), count));
    }

    static constexpr std::int64_t kWidth = BlockLayout::kVectors;
    // The start of this matrix's part of a vector.
    double* part(double* vector) const { return vector + first_row * kWidth; }

    // A (B x), and |A| (|B| |x|) for the bounds.
    void freivalds_products(const MatrixView& left, const MatrixView& right) const {
      const bool bounds = of.set == DataSet::bounded;
      const FreivaldsVectors& vectors = layout.vectors_of(of.set);
      std::vector<double> bx(static_cast<std::size_t>(k * kWidth));
      std::vector<double> absolute_bx(bounds ? bx.size() : 0);
      tilewise::product(k, kWidth, problem.n, right, MatrixView::of(layout.x, kWidth),
                        store(bx.data(), kWidth),
                        bounds ? store(absolute_bx.data(), kWidth) : BlockSink{}, threads);
      tilewise::product(m, kWidth, k, left, MatrixView::of(bx.data(), kWidth),
                        store(part(vectors.product), kWidth), {}, threads);
      if (bounds) {
        tilewise::product(m, kWidth, k, left, MatrixView::of(absolute_bx.data(), kWidth), {},
                          store(part(vectors.absolute_product), kWidth), threads);
      }
    }

    void freivalds_c0(const MatrixView& c0) const {
      const FreivaldsVectors& vectors = layout.vectors_of(of.set);
      tilewise::product(
          m, kWidth, problem.n, c0, MatrixView::of(layout.x, kWidth),
          store(part(vectors.c0), kWidth),
          of.set == DataSet::bounded ? store(part(vectors.absolute_c0), kWidth) : BlockSink{},
          threads);
    }
  };
};

// The error of strict f32 on the first matrix, for comparison with other f32 modes.
double strict_error_of(const Problem& problem, std::uint64_t seed, int threads) {
  if (problem.math == MathMode::strict || problem.a.type == DType::f64 || problem.batch == 0)
    return 0;
  ProductMemory memory;
  const auto generated = [&](Memory& in, DataOf operand) {
    return Generated(in, TestData(problem, DataSet::bounded, operand, seed), 0,
                     matrices_of(problem, operand), threads);
  };
  const Generated a = generated(memory.a, DataOf::a), b = generated(memory.b_or_c0, DataOf::b);
  return strict_f32_error(problem.m, problem.n, problem.k, a.view(problem.a.transposed),
                          b.view(problem.b.transposed), threads);
}

void fill_x(const Problem& problem, const BlockLayout& layout) {
  for (std::int64_t i = 0; i < problem.n * BlockLayout::kVectors; ++i) {
    const std::uint64_t bits = mixed_bits(~layout.header().seed, static_cast<std::uint64_t>(i));
    const auto magnitude = static_cast<double>(1 + (bits & 3));
    layout.x[i] = (bits & 4) ? magnitude : -magnitude;
  }
}

/// Whether the epilogue has sums over rows: these are compared in sampled columns, also of batches.
bool sums_over_rows(const Problem& problem) {
  return problem.epilogue &&
         std::any_of(problem.epilogue->operands.begin(), problem.epilogue->operands.end(),
                     [](const EpilogueSlot& slot) { return slot.use == EpilogueUse::summed; });
}

void check(const Problem& problem) {
  if (problem.m < 0 || problem.n < 0 || problem.k < 0 || problem.batch < 0) {
    throw Error(ErrorKind::invalid_argument, "sizes must not be negative, not " +
                                                 size_text(problem) + ", batch " +
                                                 std::to_string(problem.batch));
  }
  error_bound(problem);  // throws for unsupported types
  // Sizes may be as large as 2^40: byte counts may then exceed 64 bits.
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
  const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                          static_cast<double>(matrices_c(problem));
  header.sampled = elements > 0 && (flops_of(problem) > limits.flops || elements > limits.elements);
  if (header.sampled) {
    header.row_count = choose_samples(problem.m, matrices_c(problem), mixed_bits(seed, 100),
                                      header.rows, edges_of_products(problem));
    if (problem.batch == 1 || sums_over_rows(problem)) {
      header.column_count = choose_samples(problem.n, 1, mixed_bits(seed, 101), header.columns);
    }
  }
  const std::size_t block_bytes = BlockLayout::bytes_for(problem, header);
  SharedBlock::require(block_bytes + generated_bytes(problem, header.sampled != 0));
  Reference reference(problem, SharedBlock(block_bytes));
  if (elements > 0) header.strict_error = strict_error_of(problem, seed, threads);
  std::memcpy(reference.block_.data(), &header, sizeof header);
  const BlockLayout layout(problem, reference.block_.data());
  if (header.sampled) fill_x(problem, layout);
  for (const DataSet set : kStored) Computation{problem, layout, set}.run(threads);
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

TestData Reference::data(DataSet set, DataOf operand) const {
  return {problem_, set, operand, seed()};
}

std::uint64_t Reference::seed() const { return BlockLayout(problem_, block_.data()).header().seed; }

TestData Reference::operand_data(std::size_t slot) const { return {problem_, slot, seed()}; }

double Reference::strict_f32_error() const {
  return BlockLayout(problem_, block_.data()).header().strict_error;
}

Scalars Reference::scalars(const Problem& problem, DataSet set, int index) {
  if (index == 0) return {1, 0};
  if (set == DataSet::exact) return {3, -2};
  if (is_integer(problem.accumulator)) return {-3, 2};
  if (problem.accumulator == DType::f64) return {0.7, -1.3};
  return {double{0.7F}, double{-1.3F}};
}

}  // namespace tilewise
