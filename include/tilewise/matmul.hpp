#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tilewise/call.hpp"
#include "tilewise/element.hpp"
#include "tilewise/error.hpp"
#include "tilewise/export.h"
#include "tilewise/host_split.hpp"
#include "tilewise/match.hpp"
#include "tilewise/packed_operand.hpp"
#include "tilewise/problem.hpp"
#include "tilewise/quantization.hpp"

namespace tilewise {

struct MatmulParts;  // api/matmul_parts.hpp
struct Resolution;   // matmul/resolution.hpp

/// What the first product of a problem does if the problem was not tuned, so that Match::kind is
/// not exact. prepare() does the same. Only `tune` tunes.
enum class OnMiss : std::uint8_t {
  serve,   ///< serves it by prediction or by a default
  record,  ///< the same, and appends the problem to MatmulOptions::missed_list
  error,   ///< throws Error(not_found)
  /// Waits while a process of its own, the program `autotune`, searches for
  /// MatmulOptions::tune_seconds plus its overhead. Then the winner serves the problem, in this and
  /// in later processes. The search shares the GPU and its memory with this process. One search
  /// runs at a time; products of known problems do not wait for it. A search that fails becomes a
  /// warning, the product is served as by `serve`, and this Matmul does not search for the problem
  /// again; after three failures in a row it does not search at all. Nothing is tuned in a stream
  /// capture, by prepare_range(), for the sizes whose choices it keeps (at most 65,536), and for k
  /// = 0.
  tune,
};

/// Options of a Matmul.
struct MatmulOptions {
  /// "current" (this thread's CUDA context, otherwise 0), "auto" (the first GPU), an index, a UUID,
  /// "host" or "host:sm_90". "host" is the CPU; "cpu" is its synonym. The device pointers of the
  /// CPU are ordinary pointers, and its products are done when the call returns.
  std::string device = "current";
  std::string database;  ///< empty: TILEWISE_DB, otherwise the user's data directory
  /// A file of `autotune bundle`, read in addition to the database; the database's own record for a
  /// problem takes precedence. Problems that the bundle serves need no compiler, no cache and no
  /// database. It is opened when the Matmul is made; a missing file, or one that is not a bundle,
  /// throws Error(database). Empty: none.
  std::string bundle;
  /// Whether a product may compile its kernel if none is stored (about 0.3 s, once).
  bool compile_missing = true;
  std::string nvrtc;  ///< the run-time compiler's library or its folder; empty: searched for
  /// Whether to use a database and a cache that other users own or may write. Their images run as
  /// part of this program (docs/security.md). Not set: true if TILEWISE_TRUST_FILES=1 is in the
  /// environment, otherwise false.
  std::optional<bool> trust_files;
  OnMiss on_miss = OnMiss::serve;
  /// The file for OnMiss::record: CSV in the format of `autotune --problems`, created if it does
  /// not exist. Any number of processes may share it. A process writes each problem once, at most
  /// 10,000 problems and up to a file of 1 MiB. A file that cannot be written is a warning. Empty:
  /// the database's path followed by ".missed.csv".
  std::string missed_list;
  double tune_seconds = 10;  ///< for OnMiss::tune: the budget of one problem's search, above 0
  /// For OnMiss::tune: the path of the program `autotune`. Empty: the one next to this library or
  /// in its installation, otherwise the one on PATH; without one the constructor throws
  /// Error(not_found). The database is created if it does not exist.
  std::string autotune;
  /// The most device memory in bytes that one product on host pointers uses, including its
  /// workspace. 0: the memory that is free when it begins, less 1/16 (at most 512 MiB). Concurrent
  /// products each use up to this limit. Memory under a limit stays allocated for the next product.
  std::int64_t host_memory_limit = 0;
  /// Called once for each warning, with one line: a stale or quarantined record, a missing
  /// database. Called by a thread that uses the Matmul, by one at a time. It must not call the
  /// Matmul. Empty: warnings go to standard error; that of a missing database goes there once from
  /// all processes of a process group.
  std::function<void(const std::string&)> warn;
};

/// The tuned matrix product of one device. C (m x n) = alpha op(A) op(B) + beta C, row-major.
///
/// Column-major matrices: a column-major matrix is its transpose in row-major order, and
/// C^T = op(B)^T op(A)^T. So swap A and B (each with its leading dimension and stride), swap m and
/// n, and swap the two letters of the layout: nt becomes tn, tn becomes nt, nn and tt stay. For
/// example, C = A B^T of column-major matrices, which BLAS calls 'N', 'T':
///   multiply(Layout::tn, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc, stream);
///
/// Types: A and B have one type (float, double, std::int8_t, or f16, bf16, e4m3, e5m2 of
/// element.hpp), C the same or a wider one; product_kinds() is the table. alpha and beta have the
/// accumulator's type. The caller chooses the arithmetic of f32 (MathMode); the default is strict.
///
/// A Matmul holds the device's primary context, the winners of its database in memory, the loaded
/// kernels, and the choices of 4,096 problems. A further problem replaces one that was not served
/// recently; a replaced problem is resolved again when it is next served. Thread-safe: any number
/// of threads may call, each with its own stream. After a thread's first product of a problem, its
/// next ones take no lock, as long as the problem is among the thread's last (64 at most). Products
/// are enqueued: a result is complete when the stream reaches it. beta = 0 never reads C; alpha = 0
/// or k = 0 never reads A or B; m, n or batch = 0 does nothing.
///
/// Errors are tilewise::Error: invalid_argument (an unsupported combination of types; bad sizes,
/// leading dimensions or strides; misaligned or overlapping pointers; a call inside a stream
/// capture whose kernel is not loaded yet; a text that names no device), unsupported (a type or
/// mode that this device does not have), compiler (no kernel is stored and none can be compiled),
/// device, out_of_memory (device or host memory; these functions do not throw std::bad_alloc),
/// database, io, transient (for example a killed compiler, or a thread that the system cannot
/// start).
///
/// After fork() a Matmul and its packed operands belong to the parent. In the child every function
/// throws Error(device), and destroying them releases nothing; the child makes its own. CUDA does
/// not work in the child of a process that has used it, which is Error(device) too.
class Matmul {
 public:
  TILEWISE_API explicit Matmul(MatmulOptions options = {});
  TILEWISE_API ~Matmul();
  TILEWISE_API Matmul(Matmul&&) noexcept;
  TILEWISE_API Matmul& operator=(Matmul&&) noexcept;

  /// f32 on device pointers; leading dimensions in elements.
  TILEWISE_API void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                               float alpha, const float* a, std::int64_t lda, const float* b,
                               std::int64_t ldb, float beta, float* c, std::int64_t ldc,
                               Stream stream = nullptr, MathMode math = MathMode::strict);

  /// The same for every supported combination of types.
  template <Element T, Element R>
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
                  const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta,
                  R* c, std::int64_t ldc, Stream stream = nullptr,
                  MathMode math = MathMode::strict) {
    (*this)(typed_problem<T, R>(layout, m, n, k, math),
            call_of(a, lda, b, ldb, c, ldc, alpha, beta, stream));
  }

  /// Takes a B from pack_b(), with the leading dimension that it was packed with.
  template <Element T, Element R>
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
                  const T* a, std::int64_t lda, const PackedOperand& b, ScalarOf<T> beta, R* c,
                  std::int64_t ldc, Stream stream = nullptr, MathMode math = MathMode::strict) {
    Call call = call_of(a, lda, b.original(), b.leading_dimension(), c, ldc, alpha, beta, stream);
    call.packed_b = &b;
    (*this)(typed_problem<T, R>(layout, m, n, k, math), call);
  }

  /// `batch` products in one call: matrix i of A is at a + i stride_a, likewise B and C. Strides
  /// are in elements, 0 or more; 0 uses one A (or B) for all. The matrices of C must not share
  /// elements.
  ///
  /// If all share one B and the matrices of A and C follow one another like the rows of two tall
  /// matrices, the batch is one product of batch x m rows and is served as such, unless the batch
  /// was tuned, prepared or served before and that product was not. The same holds for a shared A,
  /// with columns.
  template <Element T, Element R>
  void batched(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
               const T* a, std::int64_t lda, std::int64_t stride_a, const T* b, std::int64_t ldb,
               std::int64_t stride_b, ScalarOf<T> beta, R* c, std::int64_t ldc,
               std::int64_t stride_c, std::int64_t batch, Stream stream = nullptr,
               MathMode math = MathMode::strict) {
    Call call = call_of(a, lda, b, ldb, c, ldc, alpha, beta, stream);
    call.stride_a = stride_a, call.stride_b = stride_b, call.stride_c = stride_c;
    (*this)(typed_problem<T, R>(layout, m, n, k, math, batch), call);
  }

  /// A batch by pointers: a, b and c are arrays in device memory of `batch` pointers to matrices in
  /// device memory, all with one leading dimension. The arrays must not change before the product
  /// is done, and the matrices of C must not share elements with each other, A or B. `alignment`
  /// (bytes) is the caller's guarantee for every address in the arrays; 0: one element. Neither it
  /// nor any pointer in the arrays is checked; a wrong one is a fault on the device. The product is
  /// served by kernels tuned for batches with strides, which either do not use TMA for the operands
  /// or pack them first.
  template <Element T, Element R>
  void batched(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
               const T* const* a, std::int64_t lda, const T* const* b, std::int64_t ldb,
               ScalarOf<T> beta, R* const* c, std::int64_t ldc, std::int64_t batch,
               Stream stream = nullptr, MathMode math = MathMode::strict, int alignment = 0) {
    Problem problem = typed_problem<T, R>(layout, m, n, k, math, batch);
    problem.pointers = true;
    const int of_operand = alignment == 0 ? int{sizeof(T)} : alignment;
    set_alignment(problem, {of_operand, of_operand, alignment == 0 ? int{sizeof(R)} : alignment});
    (*this)(problem, call_of(a, lda, b, ldb, const_cast<R**>(c), ldc, alpha, beta, stream));
  }

  /// Grouped products, as of a mixture of experts: product i multiplies the rows of A from ends[i -
  /// 1] (0 for the first) to ends[i] - 1 by its own B, at b + i stride_b, and writes the same rows
  /// of C. A and C have `rows` rows; rows of C behind the last end are not written. `ends`
  /// is device memory that the host does not read (Call::group_rows): a CUDA graph with the product
  /// can be replayed with other ends. `distribution` is what the kernel is chosen for.
  template <Element T, Element R>
  void grouped(Layout layout, std::int64_t rows, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
               const T* a, std::int64_t lda, const T* b, std::int64_t ldb, std::int64_t stride_b,
               ScalarOf<T> beta, R* c, std::int64_t ldc, const std::int32_t* ends,
               std::int64_t groups, Stream stream = nullptr, MathMode math = MathMode::strict,
               Distribution distribution = Distribution::even) {
    Problem problem = typed_problem<T, R>(layout, rows, n, k, math, groups);
    problem.grouping = Grouping::rows;
    problem.distribution = distribution;
    Call call = call_of(a, lda, b, ldb, c, ldc, alpha, beta, stream);
    call.stride_b = stride_b;
    call.group_rows = ends;
    (*this)(problem, call);
  }

  /// The general form: every type, batches, scalars in device memory, packed operands.
  /// The problem's alignment is ignored, because the call has its own; but with
  /// `problem.pointers` it is the caller's guarantee for all addresses in the arrays.
  TILEWISE_API void operator()(const Problem& problem, const Call& call);

  /// f32 on host pointers: copies to the device, multiplies, copies back and waits. Does not write
  /// the memory between the rows of C. Products of more than 32 MiB, or of more than the device
  /// memory that they may use, are split into tiles, whose copies both ways and products overlap
  /// (host_split()). Each tile is served as a problem of its own, with its own record and on_miss.
  /// After an error C is undefined, and nothing is in flight. Throws Error(out_of_memory) if the
  /// smallest split does not fit; the message has the bytes needed and free.
  TILEWISE_API void host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                         const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                         float beta, float* c, std::int64_t ldc, MathMode math = MathMode::strict);

  /// The same for every supported combination of types.
  template <Element T, Element R>
  void host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
            const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta, R* c,
            std::int64_t ldc, MathMode math = MathMode::strict) {
    host(typed_problem<T, R>(layout, m, n, k, math),
         call_of(a, lda, b, ldb, c, ldc, alpha, beta, nullptr));
  }

  /// The general form of host(), including batches. The call's stream is ignored; scalars in device
  /// memory and packed operands are Error(invalid_argument).
  TILEWISE_API void host(const Problem& problem, const Call& call);

  /// How host() will split a product. The answer is exact as long as stored data and, without a
  /// host_memory_limit, the free device memory do not change. Uses alpha, beta and the strides of
  /// the call, but no pointers. Compiles, loads and allocates nothing. Throws Error(out_of_memory)
  /// as host() does, and Error(invalid_argument) for bad sizes. The first form is for tightly
  /// packed matrices with alpha = 1 and beta = 0. Thread-safe.
  TILEWISE_API HostSplit host_split(const Problem& problem) const;
  TILEWISE_API HostSplit host_split(const Problem& problem, const Call& call) const;

  /// Packs A (B) once for many products: of `problem`, and of other problems whose kernel needs the
  /// same form of it (another m, for example). Every other product packs for itself. The kernel
  /// that serves `problem` determines the form. This operand's alignment is that of its pointer;
  /// the other two are those of the problem. The pack runs on `stream` and is done on
  /// return; the result may be used on any stream. Throws as a product does, and
  /// Error(invalid_argument) inside a stream capture.
  TILEWISE_API PackedOperand pack_a(const Problem& problem, const void* a, std::int64_t lda,
                                    std::int64_t stride_a = 0, Stream stream = nullptr);
  TILEWISE_API PackedOperand pack_b(const Problem& problem, const void* b, std::int64_t ldb,
                                    std::int64_t stride_b = 0, Stream stream = nullptr);

  /// Enqueues a quantization: activations for scaled products of 8-bit floats, for example. Throws
  /// Error(invalid_argument) for what Quantization does not allow, and as a product does where its
  /// kernel cannot be loaded. Thread-safe.
  TILEWISE_API void quantize(const Quantization& asked);

  /// The mode in which `problem` (its own mode is ignored) is fastest with an error of at most
  /// `accuracy`. The error is error_bound(): relative to |A| |B| element by element, before C is
  /// rounded. If every mode that is accurate enough has a stored record, the records decide;
  /// otherwise it is the first of tf32, f32x3 (on a device with tensor cores for them), strict.
  /// Throws Error(invalid_argument) if no mode is accurate enough (the message has every mode's
  /// bound), and Error(unsupported) if the device has none of those that are.
  TILEWISE_API MathMode fastest_within(const Problem& problem, double accuracy) const;

  /// The stored record that would serve this problem, and the reason. Compiles and loads no kernel.
  /// The first call loads the run-time compiler if there is one, because Match::stale depends on
  /// its version.
  TILEWISE_API Match explain(const Problem& problem) const;

  /// The order of sums of the invariant products with this n, k, types, mode, layout of B and
  /// epilogue (set_invariant()), as text. It stays the same in this Matmul. Compiles and loads
  /// nothing. Throws Error(database) if a kept order cannot be read. Thread-safe.
  TILEWISE_API std::string kept_order(const Problem& problem) const;
  /// 32 hexadecimal digits: a hash of the GPU model and of the problems' kept_order(). Equal ones
  /// of two processes mean that their invariant products have equal bits. Neither the order of the
  /// problems nor repeats count.
  TILEWISE_API std::string fingerprint(std::span<const Problem> problems) const;

  /// Loads (and if necessary compiles) the problem's kernels now, so that its first product is as
  /// fast as the next and can be captured into a CUDA graph. The problem's alignment must be that
  /// of the later calls; typed_problem() sets it for tightly packed matrices. A call of another
  /// alignment is another problem.
  TILEWISE_API void prepare(const Problem& problem);

  /// The same for every m from problem.m to `last_m`: their products then compile and load nothing,
  /// and their choice is made now (under 1 ms each). A range has at most 65,536 sizes. A Matmul
  /// keeps as many choices in all, the first ones; for later sizes only kernels are loaded. With
  /// OnMiss::tune, sizes whose choices are kept are served as by OnMiss::serve and are not tuned;
  /// sizes beyond the 65,536 are tuned at their first product. Rows of A whose length is m (layouts
  /// tn and tt) have the alignment of tightly packed ones, at most that of the problem. Throws
  /// Error(invalid_argument) if the range is empty or too large.
  TILEWISE_API void prepare_range(const Problem& problem, std::int64_t last_m);

 private:
  struct State;
  TILEWISE_API static Call call_of(const void* a, std::int64_t lda, const void* b, std::int64_t ldb,
                                   void* c, std::int64_t ldc, double alpha, double beta,
                                   Stream stream);
  PackedOperand pack(const Problem& problem, const Call& call, bool is_a);
  explicit Matmul(std::unique_ptr<State> state);
  friend Matmul make_matmul(MatmulParts parts);
  friend Resolution resolution_of(const Matmul& matmul, const Problem& problem);
  bool is_of_parent() const noexcept;
  void check_process() const;

  std::unique_ptr<State> state_;
  std::uint32_t fork_generation_;  ///< of the process that made this object
  int process_;                    ///< id of that process
};

/// The process-wide instance with default options. It is made on first use, for the device that is
/// then current on the calling thread, and never destroyed. The child of a fork() has its own.
TILEWISE_API Matmul& default_matmul();

/// A product on default_matmul().
TILEWISE_API void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                         const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                         float beta, float* c, std::int64_t ldc, Stream stream = nullptr,
                         MathMode math = MathMode::strict);

/// The same for every supported combination of types.
template <Element T, Element R>
void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
            const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta, R* c,
            std::int64_t ldc, Stream stream = nullptr, MathMode math = MathMode::strict) {
  default_matmul()(layout, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream, math);
}

}  // namespace tilewise
