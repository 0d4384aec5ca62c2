#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tilewise/call.hpp"
#include "tilewise/element.hpp"
#include "tilewise/error.hpp"
#include "tilewise/match.hpp"
#include "tilewise/packed_operand.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

struct MatmulParts;  // matmul/matmul_internal.hpp
struct Resolution;   // matmul/resolution.hpp

/// Options of a Matmul. Every default is what most programs want.
struct MatmulOptions {
  /// "current" (this thread's CUDA context, else 0), an index, a UUID; or "host", the CPU, whose
  /// device pointers are ordinary ones and whose products are done when the call returns.
  std::string device = "current";
  std::string database;  ///< empty: TILEWISE_DB, else the user's data directory
  /// Whether a call for which no image is stored may compile the kernel it needs (about 0.3 s,
  /// once). A call never tunes.
  bool compile_missing = true;
  std::string nvrtc;  ///< library file or folder; empty searches
  /// Use a database and a cache that other users own or may write. Their images are run as part of
  /// this program (docs/security.md). The environment variable TILEWISE_TRUST_FILES=1 does the
  /// same.
  bool trust_files = false;
  /// Called with one line, once each, when something is worth knowing: a stale or quarantined
  /// record, a missing database. Default: standard error. Must not call the Matmul it came from.
  std::function<void(const std::string&)> warn;
};

/// A problem of the given types and mode. Its alignment is that of tightly packed matrices at
/// 16-byte aligned addresses: what prepare(), explain() and pack_b() want to know. `c` is the
/// result's type (default_result() names the usual one). Throws Error(invalid_argument) that lists
/// what goes together.
Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType operand,
                      DType c, MathMode math = MathMode::strict, std::int64_t batch = 1);

/// The same for the C++ types T of A and B and R of C.
template <Element T, Element R>
Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k,
                      MathMode math = MathMode::strict, std::int64_t batch = 1) {
  return typed_problem(layout, m, n, k, ElementType<T>::value, ElementType<R>::value, math, batch);
}

/// The tuned matrix product of one device. C (m x n) = alpha op(A) op(B) + beta C, row-major.
///
/// Types: A and B have one (float, double, std::int8_t, and f16, bf16, e4m3, e5m2 of element.hpp),
/// C the same or a wider one; product_kinds() is the table. alpha and beta are of the accumulator's
/// type. How f32 may be computed is the caller's choice (MathMode): strict unless told otherwise.
///
/// Holds the device's primary context, the winners of its database in memory, and the kernels
/// loaded so far. Thread-safe: any number of threads may call, each with its own stream; nothing is
/// locked once a problem has been seen by a thread. Work is enqueued: results are there when the
/// stream is. beta = 0 never reads C; alpha = 0 or k = 0 never touches A or B; m, n or batch = 0
/// does nothing. Errors are tilewise::Error: invalid_argument (types that do not go together, bad
/// sizes, leading dimensions or strides, misaligned or overlapping pointers, a first call inside a
/// stream capture), unsupported (a type or mode this device cannot do), compiler (nothing stored
/// and no way to compile), device, out_of_memory, transient (the compiler was killed, say).
///
/// After fork() a Matmul and its packed operands belong to the parent. In the child every function
/// throws Error(device), and destroying them releases nothing; the child makes its own. CUDA does
/// not work in the child of a process that has used it: there, too, that is Error(device).
class Matmul {
 public:
  explicit Matmul(MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  /// f32 on device pointers; leading dimensions in elements.
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc, Stream stream = nullptr,
                  MathMode math = MathMode::strict);

  /// The same of any types that go together.
  template <Element T, Element R>
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
                  const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta,
                  R* c, std::int64_t ldc, Stream stream = nullptr,
                  MathMode math = MathMode::strict) {
    (*this)(typed_problem<T, R>(layout, m, n, k, math),
            call_of(a, lda, b, ldb, c, ldc, alpha, beta, stream));
  }

  /// With a B that pack_b() made; its leading dimension is the one it was packed with.
  template <Element T, Element R>
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
                  const T* a, std::int64_t lda, const PackedOperand& b, ScalarOf<T> beta, R* c,
                  std::int64_t ldc, Stream stream = nullptr, MathMode math = MathMode::strict) {
    Call call = call_of(a, lda, b.original(), b.leading_dimension(), c, ldc, alpha, beta, stream);
    call.packed_b = &b;
    (*this)(typed_problem<T, R>(layout, m, n, k, math), call);
  }

  /// `batch` products in one go: matrix i of A is at a + i stride_a, of B and C alike. Strides in
  /// elements, 0 or more; 0 uses one A (or B) for all. The matrices of C must not share elements.
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

  /// The general form: every kind, batches, scalars on the device, packed operands.
  /// `problem.alignment` is ignored: it is read off the call.
  void operator()(const Problem& problem, const Call& call);

  /// f32 on host pointers: copies to the device, multiplies, copies back, waits. What lies beyond
  /// the rows of C stays as it is. Throws Error(out_of_memory) with the bytes needed and free when
  /// they do not fit.
  void host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
            float* c, std::int64_t ldc, MathMode math = MathMode::strict);

  /// The same of any types that go together.
  template <Element T, Element R>
  void host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
            const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta, R* c,
            std::int64_t ldc, MathMode math = MathMode::strict) {
    host(typed_problem<T, R>(layout, m, n, k, math),
         call_of(a, lda, b, ldb, c, ldc, alpha, beta, nullptr));
  }

  /// The general form of host(), batches included. The call's stream does not count; scalars on the
  /// device and packed operands are refused.
  void host(const Problem& problem, const Call& call);

  /// Packs A (B) once for many products: of `problem`, and of others whose kernel wants the same
  /// form of it (another m, say); any other product packs for itself. Which form that is, the
  /// kernel that serves `problem` decides. `problem.alignment` counts but for this operand, whose
  /// own is read off its pointer. The pack runs on `stream`, and is done on return: from then on
  /// the result may be used on any stream. Throws as a product does, and Error(invalid_argument)
  /// inside a stream capture.
  PackedOperand pack_a(const Problem& problem, const void* a, std::int64_t lda,
                       std::int64_t stride_a = 0, Stream stream = nullptr);
  PackedOperand pack_b(const Problem& problem, const void* b, std::int64_t ldb,
                       std::int64_t stride_b = 0, Stream stream = nullptr);

  /// The mode in which `problem` (its own mode does not count) is served fastest with an error of
  /// at most `accuracy`: error_bound(), relative to |A| |B| element by element, before C is
  /// rounded. Where every mode that is exact enough has a stored record to go by, these decide;
  /// else the first of tf32, f32x3 (where the device has tensor cores for them), strict. Throws
  /// Error(invalid_argument) that names every mode's bound when none is good enough, and
  /// Error(unsupported) when the device can do none of those that are.
  MathMode fastest_within(const Problem& problem, double accuracy) const;

  /// Which record would serve this problem, why, how far, how stale. Compiles and loads no kernel;
  /// the first call loads the run-time compiler where there is one, since it takes its version to
  /// tell whether a measurement is stale.
  Match explain(const Problem& problem) const;

  /// Resolve, load (and if allowed compile) now, so that the first call is as fast as the next and
  /// can be captured into a CUDA graph. `problem.alignment` must be that of the calls to come (see
  /// typed_problem() for tightly packed matrices); a call of another alignment is another problem.
  void prepare(const Problem& problem);

 private:
  struct State;
  static Call call_of(const void* a, std::int64_t lda, const void* b, std::int64_t ldb, void* c,
                      std::int64_t ldc, double alpha, double beta, Stream stream);
  PackedOperand pack(const Problem& problem, const Call& call, bool is_a);
  explicit Matmul(std::unique_ptr<State> state);
  friend Matmul make_matmul(MatmulParts parts);
  friend Resolution resolution_of(const Matmul& matmul, const Problem& problem);
  bool is_of_parent() const noexcept;
  void check_process() const;

  std::unique_ptr<State> state_;
  std::uint32_t fork_generation_;  ///< of the process that made it
  int process_;                    ///< its number
};

/// The process-wide instance with default options, made on first use (for the device that is
/// current on the calling thread then) and never destroyed. The child of a fork() gets its own.
Matmul& default_matmul();

/// A product on default_matmul().
void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
            float* c, std::int64_t ldc, Stream stream = nullptr, MathMode math = MathMode::strict);

/// The same of any types that go together.
template <Element T, Element R>
void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
            const T* a, std::int64_t lda, const T* b, std::int64_t ldb, ScalarOf<T> beta, R* c,
            std::int64_t ldc, Stream stream = nullptr, MathMode math = MathMode::strict) {
  default_matmul()(layout, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream, math);
}

}  // namespace tilewise
