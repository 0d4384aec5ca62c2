// The functions of cuBLAS and cublasLt that the drop-in answers, with their names and signatures.
// If this library is preloaded, each precedes the real function in the loader's order.
#include <cstdint>

#include "drop_in/drop_in.hpp"
#include "drop_in/entries/pass.hpp"
#include "drop_in/lt.hpp"
#include "drop_in/real.hpp"

namespace tilewise::drop_in {
namespace {

Real<Status(Handle, CUstream_st**)> get_stream("cublasGetStream_v2");
Real<Status(Handle, int*)> get_pointer_mode("cublasGetPointerMode_v2");
Real<Status(Handle, int*)> get_math_mode("cublasGetMathMode");
Real<Status(Handle, int*)> get_multiprocessors("cublasGetSmCountTarget");

/// Circumstances::ask.
bool ask(Circumstances& circumstances) {
  auto* const stream = get_stream.get();
  auto* const pointers = get_pointer_mode.get();
  CUstream_st* on = nullptr;
  int mode = 0, limit = 0;
  if (!stream || !pointers || stream(circumstances.handle, &on) != kSuccess ||
      pointers(circumstances.handle, &mode) != kSuccess)
    return false;
  if (auto* const limited = get_multiprocessors.get();
      limited && limited(circumstances.handle, &limit) != kSuccess)
    return false;
  circumstances.stream = on;
  circumstances.scalars_on_host = mode == kPointersOnHost;
  circumstances.all_multiprocessors = limit == 0;
  return true;
}

/// Answers a call with a handle, or passes it to the library.
template <class... Arguments>
Status serve(Real<Status(Handle, Arguments...)>& real, const Gemm& gemm, Handle handle,
             Arguments... arguments) {
  if (inside) return pass(real, nullptr, nullptr, handle, arguments...);
  DropIn& drop_in = DropIn::of_process();
  if (!drop_in.may_answer(gemm)) return pass(real, nullptr, nullptr, handle, arguments...);
  Circumstances circumstances{.handle = handle, .ask = ask};
  DropIn::Outcome outcome;
  if (auto* const math = get_math_mode.get();
      handle && math && math(handle, &circumstances.math) == kSuccess)
    outcome = drop_in.consider(gemm, circumstances);
  else
    outcome = drop_in.not_answered(Why::arguments);
  if (outcome.answered) return kSuccess;
  if (outcome.refused) return kNotSupported;
  return pass(real, outcome.timed, circumstances.stream, handle, arguments...);
}

Gemm make_gemm(int op_a, int op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix a,
               Matrix b, Matrix c, std::int64_t batch, int compute, int scalar, const void* alpha,
               const void* beta, int algorithm = kAnyAlgorithm) {
  return {op_a, op_b, m, n, k, a, b, c, batch, compute, scalar, false, alpha, beta, algorithm};
}

}  // namespace

// cublasSgemm_v2 and similar functions: one type, whose arithmetic the math mode determines.
#define TILEWISE_GEMM(name, Int, type, how)                                                     \
  TILEWISE_ENTRY Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k,            \
                             const void* alpha, const void* a, Int lda, const void* b, Int ldb, \
                             const void* beta, void* c, Int ldc) {                              \
    static Real<decltype(name)> real(#name);                                                    \
    const Gemm gemm = make_gemm(op_a, op_b, m, n, k, {a, type, lda}, {b, type, ldb},            \
                                {c, type, ldc}, 1, how, type, alpha, beta);                     \
    return serve(real, gemm, handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \
  }
TILEWISE_GEMM(cublasSgemm_v2, int, kF32, kCompute32)
TILEWISE_GEMM(cublasSgemm_v2_64, std::int64_t, kF32, kCompute32)
TILEWISE_GEMM(cublasDgemm_v2, int, kF64, kCompute64)
TILEWISE_GEMM(cublasDgemm_v2_64, std::int64_t, kF64, kCompute64)
TILEWISE_GEMM(cublasHgemm, int, kF16, kCompute16)
TILEWISE_GEMM(cublasHgemm_64, std::int64_t, kF16, kCompute16)

#define TILEWISE_GEMM_BATCHED(name, Int, type, how)                                         \
  TILEWISE_ENTRY Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k,        \
                             const void* alpha, const void* a, Int lda, long long stride_a, \
                             const void* b, Int ldb, long long stride_b, const void* beta,  \
                             void* c, Int ldc, long long stride_c, Int batch) {             \
    static Real<decltype(name)> real(#name);                                                \
    const Gemm gemm =                                                                       \
        make_gemm(op_a, op_b, m, n, k, {a, type, lda, stride_a}, {b, type, ldb, stride_b},  \
                  {c, type, ldc, stride_c}, batch, how, type, alpha, beta);                 \
    return serve(real, gemm, handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb,  \
                 stride_b, beta, c, ldc, stride_c, batch);                                  \
  }
TILEWISE_GEMM_BATCHED(cublasSgemmStridedBatched, int, kF32, kCompute32)
TILEWISE_GEMM_BATCHED(cublasSgemmStridedBatched_64, std::int64_t, kF32, kCompute32)
TILEWISE_GEMM_BATCHED(cublasDgemmStridedBatched, int, kF64, kCompute64)
TILEWISE_GEMM_BATCHED(cublasDgemmStridedBatched_64, std::int64_t, kF64, kCompute64)
TILEWISE_GEMM_BATCHED(cublasHgemmStridedBatched, int, kF16, kCompute16)
TILEWISE_GEMM_BATCHED(cublasHgemmStridedBatched_64, std::int64_t, kF16, kCompute16)

/// The type of alpha and beta for a cublasComputeType_t.
static int scalar_type(int compute) {
  if (compute == kCompute16) return kF16;
  if (compute == kCompute64) return kF64;
  if (compute == kComputeI32) return kI32;
  return kF32;
}

#define TILEWISE_GEMM_EX(name, Int)                                                                \
  TILEWISE_ENTRY Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k,               \
                             const void* alpha, const void* a, int a_type, Int lda, const void* b, \
                             int b_type, Int ldb, const void* beta, void* c, int c_type, Int ldc,  \
                             int compute, int algorithm) {                                         \
    static Real<decltype(name)> real(#name);                                                       \
    const Gemm gemm =                                                                              \
        make_gemm(op_a, op_b, m, n, k, {a, a_type, lda}, {b, b_type, ldb}, {c, c_type, ldc}, 1,    \
                  compute, scalar_type(compute), alpha, beta, algorithm);                          \
    return serve(real, gemm, handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb,   \
                 beta, c, c_type, ldc, compute, algorithm);                                        \
  }
TILEWISE_GEMM_EX(cublasGemmEx, int)
TILEWISE_GEMM_EX(cublasGemmEx_64, std::int64_t)

#define TILEWISE_GEMM_BATCHED_EX(name, Int)                                                      \
  TILEWISE_ENTRY Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k,             \
                             const void* alpha, const void* a, int a_type, Int lda,              \
                             long long stride_a, const void* b, int b_type, Int ldb,             \
                             long long stride_b, const void* beta, void* c, int c_type, Int ldc, \
                             long long stride_c, Int batch, int compute, int algorithm) {        \
    static Real<decltype(name)> real(#name);                                                     \
    const Gemm gemm = make_gemm(op_a, op_b, m, n, k, {a, a_type, lda, stride_a},                 \
                                {b, b_type, ldb, stride_b}, {c, c_type, ldc, stride_c}, batch,   \
                                compute, scalar_type(compute), alpha, beta, algorithm);          \
    return serve(real, gemm, handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, stride_a, b,    \
                 b_type, ldb, stride_b, beta, c, c_type, ldc, stride_c, batch, compute,          \
                 algorithm);                                                                     \
  }
TILEWISE_GEMM_BATCHED_EX(cublasGemmStridedBatchedEx, int)
TILEWISE_GEMM_BATCHED_EX(cublasGemmStridedBatchedEx_64, std::int64_t)

constexpr std::uintptr_t kWorkspaceAlignment = 256;  // see Call::workspace

TILEWISE_ENTRY Status cublasLtMatmul(Handle handle, const LtProduct* product, const void* alpha,
                                     const void* a, const LtMatrix* a_matrix, const void* b,
                                     const LtMatrix* b_matrix, const void* beta, const void* c,
                                     const LtMatrix* c_matrix, void* d, const LtMatrix* d_matrix,
                                     const void* algorithm, void* workspace,
                                     std::size_t workspace_bytes, CUstream_st* stream) {
  static Real<decltype(cublasLtMatmul)> real("cublasLtMatmul");
  DropIn::Outcome outcome;
  if (!inside && handle) {
    Gemm gemm;
    Circumstances circumstances{.stream = stream};
    if (reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0 && workspace) {
      circumstances.workspace = workspace;
      circumstances.workspace_bytes = static_cast<std::int64_t>(workspace_bytes);
    }
    const Why why =
        gemm_of({product, alpha, beta, a, a_matrix, b, b_matrix, c, c_matrix, d, d_matrix}, gemm);
    DropIn& drop_in = DropIn::of_process();
    if (why != Why::none)
      outcome = drop_in.not_answered(why);
    else if (drop_in.may_answer(gemm))
      outcome = drop_in.consider(gemm, circumstances);
    if (outcome.answered) return kSuccess;
    if (outcome.refused) return kNotSupported;
  }
  return pass(real, outcome.timed, stream, handle, product, alpha, a, a_matrix, b, b_matrix, beta,
              c, c_matrix, d, d_matrix, algorithm, workspace, workspace_bytes, stream);
}

/// For tests: the number of products that this process has answered.
TILEWISE_ENTRY std::uint64_t tilewise_drop_in_answered() { return DropIn::of_process().answered(); }

}  // namespace tilewise::drop_in
