#include "tuner/reference/product.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

// A blocked product. Panels of A and B are converted to f64 while they are packed, and a
// micro-kernel accumulates a small tile of the result in vector registers along k. Each thread
// packs its own panels: that costs some 5% and needs no barrier.

namespace tilewise {
namespace {

constexpr std::int64_t kBlockRows = 192;     // multiple of every kernel's rows
constexpr std::int64_t kBlockColumns = 256;  // multiple of every kernel's columns
constexpr std::int64_t kBlockDepth = 192;

// c (rows x columns, row-major) += panel a (depth x rows) times panel b (depth x columns).
struct MicroKernel {
  int rows, columns;
  void (*run)(std::int64_t depth, const double* a, const double* b, double* c, std::int64_t ldc);
};

template <typename Vector, int Rows, int Vectors>
[[gnu::always_inline]] inline void micro_kernel(std::int64_t depth, const double* a,
                                                const double* b, double* c, std::int64_t ldc) {
  constexpr int lanes = sizeof(Vector) / sizeof(double);
  Vector sum[Rows][Vectors] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    Vector row[Vectors];
    for (int j = 0; j < Vectors; ++j) row[j] = *reinterpret_cast<const Vector*>(b + j * lanes);
    for (int i = 0; i < Rows; ++i) {
      for (int j = 0; j < Vectors; ++j) sum[i][j] += a[i] * row[j];
    }
    a += Rows;
    b += Vectors * lanes;
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Vectors; ++j) {
      *reinterpret_cast<Vector*>(c + i * ldc + j * lanes) += sum[i][j];
    }
  }
}

using Vector2 [[gnu::vector_size(16), gnu::may_alias]] = double;

void run_baseline(std::int64_t depth, const double* a, const double* b, double* c,
                  std::int64_t ldc) {
  micro_kernel<Vector2, 4, 2>(depth, a, b, c, ldc);
}

#if defined(__x86_64__)
using Vector4 [[gnu::vector_size(32), gnu::may_alias]] = double;
using Vector8 [[gnu::vector_size(64), gnu::may_alias]] = double;

[[gnu::target("avx2,fma")]] void run_avx2(std::int64_t depth, const double* a, const double* b,
                                          double* c, std::int64_t ldc) {
  micro_kernel<Vector4, 6, 2>(depth, a, b, c, ldc);
}
[[gnu::target("avx512f")]] void run_avx512(std::int64_t depth, const double* a, const double* b,
                                           double* c, std::int64_t ldc) {
  micro_kernel<Vector8, 12, 2>(depth, a, b, c, ldc);
}
#endif

MicroKernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {12, 16, run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {6, 8, run_avx2};
#endif
  return {4, 4, run_baseline};
}

// Panels of `width` vectors: to[p * width + i] = from[i * across + p * along], zero beyond `valid`.
template <typename T>
void pack_panel(const T* from, std::int64_t across, std::int64_t along, std::int64_t valid,
                int width, std::int64_t depth, double* to) {
  for (std::int64_t p = 0; p < depth; ++p, from += along, to += width) {
    if (across == 1) {
      for (std::int64_t i = 0; i < valid; ++i) to[i] = from[i];
    } else {
      for (std::int64_t i = 0; i < valid; ++i) to[i] = from[i * across];
    }
    for (std::int64_t i = valid; i < width; ++i) to[i] = 0;
  }
}

// Packs `count` vectors from `first`, `depth` elements of each from `start`, as panels of `width`.
void pack(const MatrixView& view, bool vectors_are_rows, std::int64_t first, std::int64_t count,
          std::int64_t start, std::int64_t depth, int width, double* to) {
  const bool strided = vectors_are_rows != view.transposed;
  const std::int64_t across = strided ? view.ld : 1, along = strided ? 1 : view.ld;
  for (std::int64_t v = 0; v < count; v += width, to += width * depth) {
    const std::int64_t offset = (first + v) * across + start * along;
    const std::int64_t valid = std::min<std::int64_t>(width, count - v);
    if (view.f32) {
      pack_panel(view.f32 + offset, across, along, valid, width, depth, to);
    } else {
      pack_panel(view.f64 + offset, across, along, valid, width, depth, to);
    }
  }
}

struct AlignedDelete {
  void operator()(double* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Panel = std::unique_ptr<double[], AlignedDelete>;
Panel make_panel(std::int64_t count) {
  return Panel(new (std::align_val_t{64}) double[static_cast<std::size_t>(count)]);
}

// One thread's buffers.
struct Workspace {
  Panel a = make_panel(kBlockRows * kBlockDepth);
  Panel b = make_panel(kBlockDepth * kBlockColumns);
  Panel plain = make_panel(kBlockRows * kBlockColumns);
  Panel absolute = make_panel(kBlockRows * kBlockColumns);
};

void multiply_panels(const MicroKernel& kernel, std::int64_t rows, std::int64_t columns,
                     std::int64_t depth, const double* a, const double* b, double* c) {
  for (std::int64_t j = 0; j < columns; j += kernel.columns) {
    for (std::int64_t i = 0; i < rows; i += kernel.rows) {
      kernel.run(depth, a + i * depth, b + j * depth, c + i * kBlockColumns + j, kBlockColumns);
    }
  }
}

void make_absolute(double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = std::fabs(values[i]);
}

// Block shapes depend only on the sizes; skinny results are cut into smaller blocks to occupy all
// cores.
struct Blocking {
  std::int64_t rows = kBlockRows, columns = kBlockColumns;
  std::int64_t down = 0, across = 0;
  Blocking(std::int64_t m, std::int64_t n) {
    count(m, n);
    while (down * across < 64 && (rows > 48 || columns > 32)) {
      if (columns > 32) columns /= 2;
      if (rows > 48) rows /= 2;
      count(m, n);
    }
  }
  void count(std::int64_t m, std::int64_t n) {
    down = ceil_div(m, rows);
    across = ceil_div(n, columns);
  }
};

}  // namespace

void product(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
             const MatrixView& b, const BlockSink& plain, const BlockSink& absolute, int threads) {
  if (m <= 0 || n <= 0) return;
  static const MicroKernel kernel = choose_kernel();
  const Blocking blocking(m, n);
  parallel_for(blocking.down * blocking.across, threads, [&](std::int64_t index, int) {
    thread_local Workspace work;  // reused: a batch makes many small products in one thread
    const std::int64_t row = index / blocking.across * blocking.rows;
    const std::int64_t column = index % blocking.across * blocking.columns;
    const std::int64_t rows = std::min(blocking.rows, m - row);
    const std::int64_t columns = std::min(blocking.columns, n - column);
    const std::int64_t padded_rows = round_up(rows, kernel.rows);
    const std::int64_t padded_columns = round_up(columns, kernel.columns);
    const auto block_elements = static_cast<std::size_t>(padded_rows * kBlockColumns);
    std::fill_n(work.plain.get(), block_elements, 0.0);
    std::fill_n(work.absolute.get(), block_elements, 0.0);

    for (std::int64_t p = 0; p < k; p += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, k - p);
      pack(a, true, row, rows, p, depth, kernel.rows, work.a.get());
      pack(b, false, column, columns, p, depth, kernel.columns, work.b.get());
      if (plain) {
        multiply_panels(kernel, rows, columns, depth, work.a.get(), work.b.get(), work.plain.get());
      }
      if (absolute) {
        make_absolute(work.a.get(), padded_rows * depth);
        make_absolute(work.b.get(), padded_columns * depth);
        multiply_panels(kernel, rows, columns, depth, work.a.get(), work.b.get(),
                        work.absolute.get());
      }
    }
    if (plain) plain({row, column, rows, columns, work.plain.get(), kBlockColumns});
    if (absolute) absolute({row, column, rows, columns, work.absolute.get(), kBlockColumns});
  });
}

}  // namespace tilewise
