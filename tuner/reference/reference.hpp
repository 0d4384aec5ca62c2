#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "tuner/reference/generate.hpp"

namespace tilewise {

/// alpha and beta of a check: (1, 0), or non-trivial ones.
struct Scalars {
  double alpha = 1, beta = 0;
};

/// The result of a comparison. Integers and exact data are compared bit for bit with the exact
/// value, rounded and saturated to C's type; bounded data within the bound of docs/measuring.md.
/// NaN-safe: !(error <= bound) for any element means not ok. With an epilogue, all is compared with
/// what its arithmetic gives within these bounds (epilogue_bounds.hpp).
struct Comparison {
  bool ok = false;
  double error_ratio = 0;  ///< largest |got - ref| / bound (exact data: 0 or infinity)
  double normwise_error =
      0;              ///< ||got - ref|| / ||ref||, bounded data only (of the samples, if sampled)
  std::string worst;  ///< "C[17][4] = 3 instead of 5 (exact data)" when not ok
};

/// An anonymous memory file, which a child process can map. Move-only.
class SharedBlock {
 public:
  SharedBlock() = default;
  explicit SharedBlock(
      std::size_t bytes);  ///< Throws Error(out_of_memory) with the requested bytes
  static SharedBlock map(int fd, std::size_t bytes);  ///< read-only view; takes ownership of fd
  /// Throws Error(out_of_memory) with both numbers when less memory is available.
  static void require(std::size_t bytes);
  SharedBlock(SharedBlock&& other) noexcept;
  SharedBlock& operator=(SharedBlock&& other) noexcept;
  ~SharedBlock();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

/// The largest product, in flops (2mnk) and in elements of C, each over the whole batch, for which
/// a reference stores every element of C.
struct ReferenceLimits {
  double flops = 2.0 * 4096 * 4096 * 4096;
  double elements = 8192.0 * 8192;
};

/// The correct results of one problem's test data, computed once on all cores in f64 and shared by
/// all candidates, in one flat block that a worker process maps. Small problems store every
/// element. Larger ones store sampled rows, columns, tile edges and corners exactly, and Freivalds
/// vectors (C x against A (B x)) that cover every element of every matrix of a batch, where there
/// is no epilogue: with one, a sampled reference looks at the samples only. Sampled rows of a batch
/// are from its first matrices, its last and some between. Operands are not stored: data()
/// generates them. Immutable once computed; thread-safe.
class Reference {
 public:
  /// Computes. `threads` 0 = all cores. 4096^3 takes at most 5 s on 16 cores, and meanwhile memory
  /// for one data set's A and B in addition to the block. Throws Error(invalid_argument) for
  /// negative sizes, Error(unsupported) for unsupported types, Error(out_of_memory).
  static Reference compute(const Problem& problem, std::uint64_t seed = 1, int threads = 0,
                           const ReferenceLimits& limits = {});
  /// The same block, mapped by another process. Throws Error(invalid_argument) when the block is
  /// for another problem.
  static Reference attach(const Problem& problem, SharedBlock block);

  const Problem& problem() const { return problem_; }
  const SharedBlock& block() const { return block_; }
  /// Whether the block has samples and Freivalds vectors instead of every element.
  bool sampled() const;
  /// The operands as stored; C0 is C before the product.
  TestData data(DataSet set, DataOf operand) const;
  std::uint64_t seed() const;
  /// The data of an operand of the epilogue.
  TestData operand_data(std::size_t slot) const;
  /// The scalars of a check: index 0 is (1, 0); index 1 is non-trivial (whole numbers for exact
  /// data and integer types). The accumulator's type holds them exactly.
  static Scalars scalars(const Problem& problem, DataSet set, int index);
  Scalars scalars(DataSet set, int index) const { return scalars(problem_, set, index); }
  /// The norm-wise error of a strict f32 product of the bounded data, on some rows, for comparison
  /// with f32x3 and tf32. 0 for other modes and types.
  double strict_f32_error() const;
  /// Compares a whole result (m x n in C's type, leading dimension ldc elements, the matrices of a
  /// batch stride_c elements apart) on all cores. `scalars` may have any values; exactness is
  /// guaranteed for scalars(set, 0) and scalars(set, 1).
  Comparison compare(DataSet set, const Scalars& scalars, const void* got, std::int64_t ldc,
                     std::int64_t stride_c = 0, int threads = 0) const;

 private:
  Reference(const Problem& problem, SharedBlock block);
  Problem problem_;
  SharedBlock block_;
};

/// Compares a result that is passed in pieces, from any number of threads.
class ResultCheck {
 public:
  /// Parameters as for Reference::compare(). `reference` must outlive this. `slot`: compares what
  /// the epilogue writes to, or sums in, this operand instead of C.
  ResultCheck(const Reference& reference, DataSet set, const Scalars& scalars,
              std::optional<std::size_t> slot = {});
  ~ResultCheck();
  /// Rows first .. first + count - 1, `ld` elements apart; `got` points to the first. Row i of
  /// matrix b of a batch is row b m + i; row b of sums is product b's. Pass each row once.
  /// Thread-safe.
  void rows(std::int64_t first, std::int64_t count, const void* got, std::int64_t ld);
  /// Call when all rows were passed. Given the same pieces, the result does not depend on threads
  /// or order.
  Comparison finish(int threads = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A product with f64 sums for tests and small jobs: C = alpha op(A) op(B) + beta C with leading
/// dimensions. beta = 0 never reads C; NaN and infinity propagate as in BLAS. f32 operands.
void reference_multiply(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
                        const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                        double beta, float* c, std::int64_t ldc, int threads = 0);

/// The same for any types and batch; the call's pointers and scalars are in host memory. Operands
/// are not rounded, whatever the math mode; sums are f64, rounded to C's type once (from_double).
void reference_multiply(const Problem& problem, const Call& call, int threads = 0);

}  // namespace tilewise
