// Functions of cuBLAS that the drop-in never answers, with their names and signatures. It refuses
// them where every product must be invariant.
#include <cstdint>

#include "drop_in/drop_in.hpp"
#include "drop_in/entries/pass.hpp"
#include "drop_in/real.hpp"

namespace tilewise::drop_in {

#define TILEWISE_REFUSED(name, parameters, ...)                                   \
  TILEWISE_ENTRY Status name parameters {                                         \
    static Real<decltype(name)> real(#name);                                      \
    if (!inside && DropIn::of_process().refuses_function()) return kNotSupported; \
    return pass(real, nullptr, nullptr, __VA_ARGS__);                             \
  }
/// A function with sizes of 32 bits, and that of 64.
#define TILEWISE_BOTH(signature, name) signature(name, int) signature(name##_64, std::int64_t)

// Two vectors.
#define TILEWISE_DOT(name, Int)                                                               \
  TILEWISE_REFUSED(                                                                           \
      name,                                                                                   \
      (Handle handle, Int n, const void* x, Int step_x, const void* y, Int step_y, void* to), \
      handle, n, x, step_x, y, step_y, to)
TILEWISE_BOTH(TILEWISE_DOT, cublasSdot_v2)
TILEWISE_BOTH(TILEWISE_DOT, cublasDdot_v2)
TILEWISE_BOTH(TILEWISE_DOT, cublasCdotu_v2)
TILEWISE_BOTH(TILEWISE_DOT, cublasCdotc_v2)
TILEWISE_BOTH(TILEWISE_DOT, cublasZdotu_v2)
TILEWISE_BOTH(TILEWISE_DOT, cublasZdotc_v2)
#define TILEWISE_DOT_EX(name, Int)                                                              \
  TILEWISE_REFUSED(name,                                                                        \
                   (Handle handle, Int n, const void* x, int x_type, Int step_x, const void* y, \
                    int y_type, Int step_y, void* to, int type, int compute),                   \
                   handle, n, x, x_type, step_x, y, y_type, step_y, to, type, compute)
TILEWISE_BOTH(TILEWISE_DOT_EX, cublasDotEx)
TILEWISE_BOTH(TILEWISE_DOT_EX, cublasDotcEx)

// A matrix and a vector.
#define TILEWISE_VECTOR(name, Int)                                                              \
  TILEWISE_REFUSED(name,                                                                        \
                   (Handle handle, int op, Int m, Int n, const void* alpha, const void* a,      \
                    Int lda, const void* x, Int step_x, const void* beta, void* y, Int step_y), \
                   handle, op, m, n, alpha, a, lda, x, step_x, beta, y, step_y)
TILEWISE_BOTH(TILEWISE_VECTOR, cublasSgemv_v2)
TILEWISE_BOTH(TILEWISE_VECTOR, cublasDgemv_v2)
TILEWISE_BOTH(TILEWISE_VECTOR, cublasCgemv_v2)
TILEWISE_BOTH(TILEWISE_VECTOR, cublasZgemv_v2)
#define TILEWISE_VECTORS(name, Int)                                                                \
  TILEWISE_REFUSED(                                                                                \
      name,                                                                                        \
      (Handle handle, int op, Int m, Int n, const void* alpha, const void* const* a, Int lda,      \
       const void* const* x, Int step_x, const void* beta, void* const* y, Int step_y, Int batch), \
      handle, op, m, n, alpha, a, lda, x, step_x, beta, y, step_y, batch)
#define TILEWISE_VECTORS_BY_STRIDES(name, Int)                                                  \
  TILEWISE_REFUSED(name,                                                                        \
                   (Handle handle, int op, Int m, Int n, const void* alpha, const void* a,      \
                    Int lda, long long stride_a, const void* x, Int step_x, long long stride_x, \
                    const void* beta, void* y, Int step_y, long long stride_y, Int batch),      \
                   handle, op, m, n, alpha, a, lda, stride_a, x, step_x, stride_x, beta, y,     \
                   step_y, stride_y, batch)
#define TILEWISE_VECTORS_OF(types)                            \
  TILEWISE_BOTH(TILEWISE_VECTORS, cublas##types##gemvBatched) \
  TILEWISE_BOTH(TILEWISE_VECTORS_BY_STRIDES, cublas##types##gemvStridedBatched)
TILEWISE_VECTORS_OF(S)
TILEWISE_VECTORS_OF(D)
TILEWISE_VECTORS_OF(C)
TILEWISE_VECTORS_OF(Z)
TILEWISE_VECTORS_OF(HSH)
TILEWISE_VECTORS_OF(HSS)
TILEWISE_VECTORS_OF(TST)
TILEWISE_VECTORS_OF(TSS)

// Batches by pointers, and groups of them.
#define TILEWISE_BY_POINTERS(name, Int)                                                        \
  TILEWISE_REFUSED(name,                                                                       \
                   (Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha, \
                    const void* const* a, Int lda, const void* const* b, Int ldb,              \
                    const void* beta, void* const* c, Int ldc, Int batch),                     \
                   handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasSgemmBatched)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasDgemmBatched)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasHgemmBatched)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasCgemmBatched)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasZgemmBatched)
TILEWISE_BOTH(TILEWISE_BY_POINTERS, cublasCgemm3mBatched)
#define TILEWISE_EX_BY_POINTERS(name, Int)                                                       \
  TILEWISE_REFUSED(name,                                                                         \
                   (Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,   \
                    const void* const* a, int a_type, Int lda, const void* const* b, int b_type, \
                    Int ldb, const void* beta, void* const* c, int c_type, Int ldc, Int batch,   \
                    int compute, int algorithm),                                                 \
                   handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c,  \
                   c_type, ldc, batch, compute, algorithm)
TILEWISE_BOTH(TILEWISE_EX_BY_POINTERS, cublasGemmBatchedEx)
#define TILEWISE_GROUPED(name, Int)                                                              \
  TILEWISE_REFUSED(name,                                                                         \
                   (Handle handle, const int* op_a, const int* op_b, const Int* m, const Int* n, \
                    const Int* k, const void* alpha, const void* const* a, const Int* lda,       \
                    const void* const* b, const Int* ldb, const void* beta, void* const* c,      \
                    const Int* ldc, Int groups, const Int* sizes),                               \
                   handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, groups,     \
                   sizes)
TILEWISE_BOTH(TILEWISE_GROUPED, cublasSgemmGroupedBatched)
TILEWISE_BOTH(TILEWISE_GROUPED, cublasDgemmGroupedBatched)
#define TILEWISE_GROUPED_EX(name, Int)                                                            \
  TILEWISE_REFUSED(                                                                               \
      name,                                                                                       \
      (Handle handle, const int* op_a, const int* op_b, const Int* m, const Int* n, const Int* k, \
       const void* alpha, const void* const* a, int a_type, const Int* lda, const void* const* b, \
       int b_type, const Int* ldb, const void* beta, void* const* c, int c_type, const Int* ldc,  \
       Int groups, const Int* sizes, int compute),                                                \
      handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,   \
      groups, sizes, compute)
TILEWISE_BOTH(TILEWISE_GROUPED_EX, cublasGemmGroupedBatchedEx)

// Older forms, and complex numbers.
#define TILEWISE_BY_TYPES(name, Int)                                                            \
  TILEWISE_REFUSED(name,                                                                        \
                   (Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,  \
                    const void* a, int a_type, Int lda, const void* b, int b_type, Int ldb,     \
                    const void* beta, void* c, int c_type, Int ldc),                            \
                   handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, \
                   c_type, ldc)
TILEWISE_BOTH(TILEWISE_BY_TYPES, cublasSgemmEx)
TILEWISE_BOTH(TILEWISE_BY_TYPES, cublasCgemmEx)
TILEWISE_BOTH(TILEWISE_BY_TYPES, cublasCgemm3mEx)
#define TILEWISE_COMPLEX(name, Int)                                                              \
  TILEWISE_REFUSED(                                                                              \
      name,                                                                                      \
      (Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha, const void* a, \
       Int lda, const void* b, Int ldb, const void* beta, void* c, Int ldc),                     \
      handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
TILEWISE_BOTH(TILEWISE_COMPLEX, cublasCgemm_v2)
TILEWISE_BOTH(TILEWISE_COMPLEX, cublasZgemm_v2)
TILEWISE_BOTH(TILEWISE_COMPLEX, cublasCgemm3m)
TILEWISE_BOTH(TILEWISE_COMPLEX, cublasZgemm3m)
#define TILEWISE_COMPLEX_BATCH(name, Int)                                                         \
  TILEWISE_REFUSED(                                                                               \
      name,                                                                                       \
      (Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha, const void* a,  \
       Int lda, long long stride_a, const void* b, Int ldb, long long stride_b, const void* beta, \
       void* c, Int ldc, long long stride_c, Int batch),                                          \
      handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,       \
      stride_c, batch)
TILEWISE_BOTH(TILEWISE_COMPLEX_BATCH, cublasCgemmStridedBatched)
TILEWISE_BOTH(TILEWISE_COMPLEX_BATCH, cublasZgemmStridedBatched)
TILEWISE_BOTH(TILEWISE_COMPLEX_BATCH, cublasCgemm3mStridedBatched)

// Symmetric, Hermitian and triangular matrices.
#define TILEWISE_SYMM(name, Int)                                                                   \
  TILEWISE_REFUSED(                                                                                \
      name,                                                                                        \
      (Handle handle, int side, int fill, Int m, Int n, const void* alpha, const void* a, Int lda, \
       const void* b, Int ldb, const void* beta, void* c, Int ldc),                                \
      handle, side, fill, m, n, alpha, a, lda, b, ldb, beta, c, ldc)
#define TILEWISE_SYRK(name, Int)                                                      \
  TILEWISE_REFUSED(name,                                                              \
                   (Handle handle, int fill, int op, Int n, Int k, const void* alpha, \
                    const void* a, Int lda, const void* beta, void* c, Int ldc),      \
                   handle, fill, op, n, k, alpha, a, lda, beta, c, ldc)
#define TILEWISE_SYRK_EX(name, Int)                                                     \
  TILEWISE_REFUSED(                                                                     \
      name,                                                                             \
      (Handle handle, int fill, int op, Int n, Int k, const void* alpha, const void* a, \
       int a_type, Int lda, const void* beta, void* c, int c_type, Int ldc),            \
      handle, fill, op, n, k, alpha, a, a_type, lda, beta, c, c_type, ldc)
#define TILEWISE_TRMM(name, Int)                                                                 \
  TILEWISE_REFUSED(                                                                              \
      name,                                                                                      \
      (Handle handle, int side, int fill, int op, int diagonal, Int m, Int n, const void* alpha, \
       const void* a, Int lda, const void* b, Int ldb, void* c, Int ldc),                        \
      handle, side, fill, op, diagonal, m, n, alpha, a, lda, b, ldb, c, ldc)
// syr2k and syrkx have the same parameters as symm.
#define TILEWISE_SYMMETRIC_OF(type)                    \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##symm_v2)  \
  TILEWISE_BOTH(TILEWISE_SYRK, cublas##type##syrk_v2)  \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##syr2k_v2) \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##syrkx)    \
  TILEWISE_BOTH(TILEWISE_TRMM, cublas##type##trmm_v2)
TILEWISE_SYMMETRIC_OF(S)
TILEWISE_SYMMETRIC_OF(D)
TILEWISE_SYMMETRIC_OF(C)
TILEWISE_SYMMETRIC_OF(Z)
#define TILEWISE_HERMITIAN_OF(type)                    \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##hemm_v2)  \
  TILEWISE_BOTH(TILEWISE_SYRK, cublas##type##herk_v2)  \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##her2k_v2) \
  TILEWISE_BOTH(TILEWISE_SYMM, cublas##type##herkx)
TILEWISE_HERMITIAN_OF(C)
TILEWISE_HERMITIAN_OF(Z)
TILEWISE_BOTH(TILEWISE_SYRK_EX, cublasCsyrkEx)
TILEWISE_BOTH(TILEWISE_SYRK_EX, cublasCsyrk3mEx)
TILEWISE_BOTH(TILEWISE_SYRK_EX, cublasCherkEx)
TILEWISE_BOTH(TILEWISE_SYRK_EX, cublasCherk3mEx)

}  // namespace tilewise::drop_in
