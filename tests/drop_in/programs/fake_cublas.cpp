// In the place of libcublas.so: the functions that the drop-in answers or asks, computed by plain
// loops on host memory. It counts the products that reach it.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "drop_in/abi.hpp"
#include "drop_in/product.hpp"
#include "tilewise/number.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

using namespace tilewise;
using namespace tilewise::drop_in;

std::atomic<int> products{0};

struct State {
  CUstream_st* stream = nullptr;
  int pointers = kPointersOnHost, math = kDefaultMath, multiprocessors = 0;
};

DType element(int type) {
  switch (type) {
    case kF64:
      return DType::f64;
    case kF16:
      return DType::f16;
    case kBf16:
      return DType::bf16;
    case kI8:
      return DType::i8;
    case kI32:
      return DType::i32;
    default:
      return DType::f32;
  }
}

double at(const Matrix& x, std::int64_t of, std::int64_t row, std::int64_t column) {
  const DType type = element(x.type);
  const auto index = of * x.stride + column * x.ld + row;
  return to_double(type, static_cast<const char*>(x.data) + index * bytes_of(type));
}

Status multiply(const Gemm& gemm) {
  ++products;
  if (gemm.m < 0 || gemm.n < 0 || gemm.k < 0) return 7;  // CUBLAS_STATUS_INVALID_VALUE
  const double alpha = to_double(element(gemm.scalar), gemm.alpha);
  const double beta = to_double(element(gemm.scalar), gemm.beta);
  const DType type = element(gemm.c.type);
  for (std::int64_t of = 0; of < gemm.batch; ++of)
    for (std::int64_t j = 0; j < gemm.n; ++j)
      for (std::int64_t i = 0; i < gemm.m; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p < gemm.k; ++p)
          sum += (gemm.op_a ? at(gemm.a, of, p, i) : at(gemm.a, of, i, p)) *
                 (gemm.op_b ? at(gemm.b, of, j, p) : at(gemm.b, of, p, j));
        double value = alpha * sum;
        if (beta != 0) value += beta * at(gemm.c, of, i, j);
        const auto index = of * gemm.c.stride + j * gemm.c.ld + i;
        from_double(type, value,
                    static_cast<char*>(const_cast<void*>(gemm.c.data)) + index * bytes_of(type));
      }
  return kSuccess;
}

int scalar_type(int compute) {
  return compute == kCompute16    ? kF16
         : compute == kCompute64  ? kF64
         : compute == kComputeI32 ? kI32
                                  : kF32;
}

template <class Descriptor>
Status set(Descriptor* described, int name, const void* value, std::size_t bytes) {
  if (static_cast<std::size_t>(name) >= std::size(described->data) || bytes > 8) return 7;
  described->data[name] = 0;
  std::memcpy(&described->data[name], value, bytes);
  return kSuccess;
}
template <class Descriptor>
Status get(const Descriptor* described, int name, void* value, std::size_t bytes,
           std::size_t* written) {
  if (static_cast<std::size_t>(name) >= std::size(described->data) || bytes > 8) return 7;
  std::memcpy(value, &described->data[name], bytes);
  if (written) *written = bytes;
  return kSuccess;
}

}  // namespace

FAKE int fake_cublas_products() { return products; }

FAKE Status cublasCreate_v2(Handle* handle) {
  *handle = new State;
  return kSuccess;
}
FAKE Status cublasDestroy_v2(Handle handle) {
  delete static_cast<State*>(handle);
  return kSuccess;
}
FAKE Status cublasGetStream_v2(Handle handle, CUstream_st** stream) {
  *stream = static_cast<State*>(handle)->stream;
  return kSuccess;
}
FAKE Status cublasGetPointerMode_v2(Handle handle, int* mode) {
  *mode = static_cast<State*>(handle)->pointers;
  return kSuccess;
}
FAKE Status cublasSetPointerMode_v2(Handle handle, int mode) {
  static_cast<State*>(handle)->pointers = mode;
  return kSuccess;
}
FAKE Status cublasGetMathMode(Handle handle, int* mode) {
  *mode = static_cast<State*>(handle)->math;
  return kSuccess;
}
FAKE Status cublasSetMathMode(Handle handle, int mode) {
  static_cast<State*>(handle)->math = mode;
  return kSuccess;
}
FAKE Status cublasGetSmCountTarget(Handle handle, int* count) {
  *count = static_cast<State*>(handle)->multiprocessors;
  return kSuccess;
}
FAKE Status cublasSetSmCountTarget(Handle handle, int count) {
  static_cast<State*>(handle)->multiprocessors = count;
  return kSuccess;
}

#define FAKE_GEMM(name, Int, type, how)                                                       \
  FAKE Status name(Handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,        \
                   const void* a, Int lda, const void* b, Int ldb, const void* beta, void* c, \
                   Int ldc) {                                                                 \
    return multiply({op_a,                                                                    \
                     op_b,                                                                    \
                     m,                                                                       \
                     n,                                                                       \
                     k,                                                                       \
                     {a, type, lda},                                                          \
                     {b, type, ldb},                                                          \
                     {c, type, ldc},                                                          \
                     1,                                                                       \
                     how,                                                                     \
                     type,                                                                    \
                     false,                                                                   \
                     alpha,                                                                   \
                     beta});                                                                  \
  }
FAKE_GEMM(cublasSgemm_v2, int, kF32, kCompute32)
FAKE_GEMM(cublasSgemm_v2_64, std::int64_t, kF32, kCompute32)
FAKE_GEMM(cublasDgemm_v2, int, kF64, kCompute64)
FAKE_GEMM(cublasDgemm_v2_64, std::int64_t, kF64, kCompute64)
FAKE_GEMM(cublasHgemm, int, kF16, kCompute16)
FAKE_GEMM(cublasHgemm_64, std::int64_t, kF16, kCompute16)

#define FAKE_BATCHED(name, Int, type, how)                                                     \
  FAKE Status name(Handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,         \
                   const void* a, Int lda, long long stride_a, const void* b, Int ldb,         \
                   long long stride_b, const void* beta, void* c, Int ldc, long long stride_c, \
                   Int batch) {                                                                \
    return multiply({op_a,                                                                     \
                     op_b,                                                                     \
                     m,                                                                        \
                     n,                                                                        \
                     k,                                                                        \
                     {a, type, lda, stride_a},                                                 \
                     {b, type, ldb, stride_b},                                                 \
                     {c, type, ldc, stride_c},                                                 \
                     batch,                                                                    \
                     how,                                                                      \
                     type,                                                                     \
                     false,                                                                    \
                     alpha,                                                                    \
                     beta});                                                                   \
  }
FAKE_BATCHED(cublasSgemmStridedBatched, int, kF32, kCompute32)
FAKE_BATCHED(cublasSgemmStridedBatched_64, std::int64_t, kF32, kCompute32)
FAKE_BATCHED(cublasDgemmStridedBatched, int, kF64, kCompute64)
FAKE_BATCHED(cublasDgemmStridedBatched_64, std::int64_t, kF64, kCompute64)
FAKE_BATCHED(cublasHgemmStridedBatched, int, kF16, kCompute16)
FAKE_BATCHED(cublasHgemmStridedBatched_64, std::int64_t, kF16, kCompute16)

#define FAKE_EX(name, Int)                                                                 \
  FAKE Status name(Handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,     \
                   const void* a, int a_type, Int lda, const void* b, int b_type, Int ldb, \
                   const void* beta, void* c, int c_type, Int ldc, int compute, int) {     \
    return multiply({op_a,                                                                 \
                     op_b,                                                                 \
                     m,                                                                    \
                     n,                                                                    \
                     k,                                                                    \
                     {a, a_type, lda},                                                     \
                     {b, b_type, ldb},                                                     \
                     {c, c_type, ldc},                                                     \
                     1,                                                                    \
                     compute,                                                              \
                     scalar_type(compute),                                                 \
                     false,                                                                \
                     alpha,                                                                \
                     beta});                                                               \
  }
FAKE_EX(cublasGemmEx, int)
FAKE_EX(cublasGemmEx_64, std::int64_t)

#define FAKE_BATCHED_EX(name, Int)                                                                 \
  FAKE Status name(Handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,             \
                   const void* a, int a_type, Int lda, long long stride_a, const void* b,          \
                   int b_type, Int ldb, long long stride_b, const void* beta, void* c, int c_type, \
                   Int ldc, long long stride_c, Int batch, int compute, int) {                     \
    return multiply({op_a,                                                                         \
                     op_b,                                                                         \
                     m,                                                                            \
                     n,                                                                            \
                     k,                                                                            \
                     {a, a_type, lda, stride_a},                                                   \
                     {b, b_type, ldb, stride_b},                                                   \
                     {c, c_type, ldc, stride_c},                                                   \
                     batch,                                                                        \
                     compute,                                                                      \
                     scalar_type(compute),                                                         \
                     false,                                                                        \
                     alpha,                                                                        \
                     beta});                                                                       \
  }
FAKE_BATCHED_EX(cublasGemmStridedBatchedEx, int)
FAKE_BATCHED_EX(cublasGemmStridedBatchedEx_64, std::int64_t)

FAKE std::size_t cublasLtGetVersion() { return 130'100; }

FAKE Status cublasLtMatmulDescGetAttribute(const LtProduct* product, int name, void* value,
                                           std::size_t bytes, std::size_t* written) {
  return get(product, name, value, bytes, written);
}
FAKE Status cublasLtMatmulDescSetAttribute(LtProduct* product, int name, const void* value,
                                           std::size_t bytes) {
  return set(product, name, value, bytes);
}
FAKE Status cublasLtMatrixLayoutGetAttribute(const LtMatrix* matrix, int name, void* value,
                                             std::size_t bytes, std::size_t* written) {
  return get(matrix, name, value, bytes, written);
}
FAKE Status cublasLtMatrixLayoutSetAttribute(LtMatrix* matrix, int name, const void* value,
                                             std::size_t bytes) {
  return set(matrix, name, value, bytes);
}
/// Without an epilogue; it counts, and multiplies f32 where D is C.
FAKE Status cublasLtMatmul(Handle, const LtProduct* product, const void* alpha, const void* a,
                           const LtMatrix* a_matrix, const void* b, const LtMatrix* b_matrix,
                           const void* beta, const void*, const LtMatrix*, void* d,
                           const LtMatrix* d_matrix, const void*, void*, std::size_t,
                           CUstream_st*) {
  const auto number = [](const auto* of, int name) {
    return static_cast<std::int64_t>(of->data[name]);
  };
  const auto op_a = static_cast<int>(number(product, kLtTransA));
  const auto op_b = static_cast<int>(number(product, kLtTransB));
  return multiply({op_a,
                   op_b,
                   number(d_matrix, kLtRows),
                   number(d_matrix, kLtColumns),
                   number(a_matrix, op_a ? kLtRows : kLtColumns),
                   {a, kF32, number(a_matrix, kLtLd)},
                   {b, kF32, number(b_matrix, kLtLd)},
                   {d, kF32, number(d_matrix, kLtLd)},
                   1,
                   kCompute32,
                   kF32,
                   false,
                   alpha,
                   beta});
}
