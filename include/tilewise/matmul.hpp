#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tilewise/call.hpp"
#include "tilewise/error.hpp"
#include "tilewise/match.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

struct MatmulParts;  // matmul/matmul_internal.hpp

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
  /// Called with one line, once each, when something is worth knowing: a stale or quarantined
  /// record, a missing database. Default: standard error. Must not call the Matmul it came from.
  std::function<void(const std::string&)> warn;
};

/// The tuned matrix product of one device. C (m x n) = alpha op(A) op(B) + beta C, row-major.
///
/// Holds the device's primary context, the winners of its database in memory, and the kernels
/// loaded so far. Thread-safe: any number of threads may call, each with its own stream; nothing is
/// locked once a problem has been seen by a thread. Work is enqueued: results are there when the
/// stream is. beta = 0 never reads C; alpha = 0 or k = 0 never touches A or B; m or n = 0 does
/// nothing. Errors are tilewise::Error: invalid_argument (bad sizes, leading dimensions, misaligned
/// or overlapping pointers, a first call inside a stream capture), compiler (nothing stored and no
/// way to compile), device, out_of_memory.
class Matmul {
 public:
  explicit Matmul(MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  /// f32 on device pointers; leading dimensions in elements.
  void operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc, Stream stream = nullptr);

  /// The general form. `problem.alignment` is ignored: it is read off the call.
  void operator()(const Problem& problem, const Call& call);

  /// f32 on host pointers: copies to the device, multiplies, copies back, waits. What lies beyond
  /// the rows of C stays as it is. Throws Error(out_of_memory) with the bytes needed and free when
  /// they do not fit.
  void host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
            float* c, std::int64_t ldc);

  /// Which record would serve this problem, why, how far, how stale. Compiles and loads no kernel;
  /// the first call loads the run-time compiler where there is one, since it takes its version to
  /// tell whether a measurement is stale.
  Match explain(const Problem& problem) const;

  /// Resolve, load (and if allowed compile) now, so that the first call is as fast as the next and
  /// can be captured into a CUDA graph. `problem.alignment` must be that of the calls to come (see
  /// natural_alignment() for tightly packed matrices); a call of another alignment is another
  /// problem.
  void prepare(const Problem& problem);

 private:
  struct State;
  explicit Matmul(std::unique_ptr<State> state);
  friend Matmul make_matmul(MatmulParts parts);
  std::unique_ptr<State> state_;
};

/// Matmul on a process-wide instance with default options, made on first use (for the device that
/// is current on the calling thread then) and never destroyed.
void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
            float* c, std::int64_t ldc, Stream stream = nullptr);

}  // namespace tilewise
