#pragma once
#include <algorithm>
#include <cstdint>

#include "templates/families/emulated/layout.hpp"
#include "templates/parts/moduli_layout.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::emulated {

/// What A and B become in the workspace: matrices of residues, one for each modulus (f64), or two
/// of halves (f32).
struct Scheme {
  bool halves;

  explicit Scheme(const Problem& p) : halves(p.a.type == DType::f32) {}
  int matrices() const { return halves ? 2 : residues::kMost; }
  int element_bytes() const { return halves ? 2 : 1; }
  /// Of an element of C, in the workspace.
  int result_bytes() const { return halves ? 4 : residues::kMost; }
  /// The greatest k whose magnitudes' products stay below 2^31.
  static constexpr std::int64_t kMostDepth = residues::kMostDepth;
};

/// An emulated problem's inner products: how k is cut into parts, and C's columns into chunks.
struct Sizes {
  static constexpr std::int64_t kRow = 128;  ///< rows of A's and B's matrices are multiples of it
  static constexpr std::int64_t kColumns = 16;  ///< as are rows of results
  static constexpr std::int64_t kMostChunks = 16;

  Scheme scheme;
  std::int64_t m, n, k, parts, depth, ld;
  std::int64_t columns;  ///< of a chunk

  Sizes(const Problem& p, const DeviceInfo& device)
      : scheme(p),
        m(p.m),
        n(p.n),
        k(p.k),
        parts(scheme.halves ? 1 : std::max<std::int64_t>(1, ceil_div(p.k, Scheme::kMostDepth))),
        depth(parts == 1 ? p.k : round_up(ceil_div(p.k, parts), kRow)),
        ld(padded(depth)) {
    // As few chunks as leave the workspace below a quarter of the memory.
    columns = n;
    for (std::int64_t chunks = 2; chunks <= kMostChunks && !fits(device); ++chunks)
      columns = round_up(ceil_div(n, chunks), 256);
  }
  static std::int64_t padded(std::int64_t steps) {
    return round_up(std::max<std::int64_t>(1, steps), kRow);
  }
  std::int64_t padded_columns() const { return round_up(columns, kColumns); }
  /// Of all matrices of A, of B, and of the results; magnitudes and their products lie there
  /// before.
  std::int64_t bytes_a() const { return bytes_of_rows(m); }
  std::int64_t bytes_b() const { return bytes_of_rows(padded_columns()); }
  std::int64_t bytes_c() const { return scheme.result_bytes() * parts * m * padded_columns(); }
  double workspace() const { return double(bytes_a()) + double(bytes_b()) + double(bytes_c()); }
  bool fits(const DeviceInfo& device) const {
    return device.memory_bytes <= 0 || workspace() <= double(device.memory_bytes) / 4;
  }

  /// Of so many steps of k the magnitudes of halves have the first kSampled: of deep products 1024
  /// to 1536 steps, from all of k. They leave much room, unlike those of residues.
  std::int64_t sampled_of() const {
    return residues::kSampled * std::max<std::int64_t>(1, depth / 1024);
  }
  /// Steps of k of the magnitudes, and of a row of their matrix.
  std::int64_t magnitudes_depth() const {
    return scheme.halves ? ceil_div(depth, sampled_of()) * residues::kSampled : depth;
  }
  std::int64_t magnitudes_ld() const { return padded(magnitudes_depth()); }

  /// The products of a chunk of C's columns.
  Problem products(std::int64_t of_columns) const {
    Problem p;
    p.m = m;
    p.n = round_up(of_columns, kColumns);
    p.k = depth;
    p.b.transposed = true;
    if (scheme.halves) {
      p.a.type = p.b.type = DType::f16;
      p.c.type = p.accumulator = DType::f32;
      p.math = MathMode::f32x3;
    } else {
      p.a.type = p.b.type = p.c.type = DType::i8;
      p.accumulator = DType::i32;
      p.batch = scheme.matrices() * parts;
    }
    return p;
  }
  Problem products() const { return products(columns); }
  /// The products of magnitudes.
  Problem magnitudes(std::int64_t of_columns) const {
    Problem p = products(of_columns);
    p.k = magnitudes_depth();
    p.a.type = p.b.type = DType::i8;
    p.c.type = p.accumulator = DType::i32;
    p.math = MathMode::strict;
    p.batch = parts;
    return p;
  }

 private:
  std::int64_t bytes_of_rows(std::int64_t rows) const {
    return scheme.matrices() * scheme.element_bytes() * parts * rows * ld;
  }
};

}  // namespace tilewise::emulated
