// Replaces libcublas.so: the functions that the drop-in answers or calls, computed by plain loops
// on host memory. It refuses the arguments that cuBLAS refuses, and counts the products that reach
// it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

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
    case kE4m3:
      return DType::e4m3;
    case kE5m2:
      return DType::e5m2;
    default:
      return DType::f32;
  }
}

constexpr Status kInvalidValue = 7;  // CUBLAS_STATUS_INVALID_VALUE

/// A matrix with its order: cublasLt also has row-major ones.
struct Placed {
  Matrix matrix;
  bool row_major = false;
};
std::int64_t offset_in(const Placed& x, std::int64_t of, std::int64_t row, std::int64_t column) {
  if (x.row_major) std::swap(row, column);
  return (of * x.matrix.stride + column * x.matrix.ld + row) * bytes_of(element(x.matrix.type));
}
double at(const Placed& x, std::int64_t of, std::int64_t row, std::int64_t column) {
  const auto* data = static_cast<const char*>(x.matrix.data);
  return to_double(element(x.matrix.type), data + offset_in(x, of, row, column));
}

/// A product whose C is `addend` and whose D is the Gemm's c.
struct FullProduct {
  Gemm gemm;
  Placed a, b, addend, d;
};

/// A factor of an operand of cublasLt.
double scale_of(const void* factor) {
  return factor ? to_double(DType::f32, static_cast<const char*>(factor)) : 1;
}

char* aux_at(const Gemm& gemm, std::int64_t of, std::int64_t row, std::int64_t column) {
  return static_cast<char*>(const_cast<void*>(gemm.aux.data)) +
         (of * gemm.aux.stride + column * gemm.aux.ld + row) * bytes_of(element(gemm.c.type));
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double of_gelu(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x);
}

/// An epilogue of cublasLt.
double after(const Gemm& gemm, double value, std::int64_t of, std::int64_t row,
             std::int64_t column) {
  if ((gemm.epilogue & kLtWithBias) != 0) {
    const DType type = element(gemm.bias.type < 0 ? gemm.c.type : gemm.bias.type);
    value += to_double(type, static_cast<const char*>(gemm.bias.data) +
                                 (of * gemm.bias.stride + row) * bytes_of(type));
  }
  const int activation = gemm.epilogue & ~kLtWithBias;
  if (activation == kLtRelu) return std::max(value, 0.0);
  const DType type = element(gemm.c.type);
  if (activation == kLtGeluAux) from_double(type, value, aux_at(gemm, of, row, column));
  if (activation == kLtOfGelu || activation == kLtOfGeluAndBias)
    return value * of_gelu(to_double(type, aux_at(gemm, of, row, column)));
  return (activation & kLtGelu) != 0 ? gelu(value) : value;
}

bool is_refused(const Gemm& gemm, std::int64_t least_a, std::int64_t least_b,
                std::int64_t least_c) {
  const auto is_operation = [](int op) { return op >= kNotTransposed && op <= kConjugate; };
  return !is_operation(gemm.op_a) || !is_operation(gemm.op_b) || gemm.m < 0 || gemm.n < 0 ||
         gemm.k < 0 || gemm.batch < 0 || gemm.a.ld < std::max<std::int64_t>(1, least_a) ||
         gemm.b.ld < std::max<std::int64_t>(1, least_b) ||
         gemm.c.ld < std::max<std::int64_t>(1, least_c);
}

Status multiply(const FullProduct& product) {
  const Gemm& gemm = product.gemm;
  const double alpha = to_double(element(gemm.scalar), gemm.alpha);
  const double beta = to_double(element(gemm.scalar), gemm.beta);
  for (std::int64_t of = 0; of < gemm.batch; ++of) {
    std::vector<double> gradients(static_cast<std::size_t>(gemm.m));
    for (std::int64_t j = 0; j < gemm.n; ++j)
      for (std::int64_t i = 0; i < gemm.m; ++i) {
        double sum = 0;
        if (alpha != 0)
          for (std::int64_t p = 0; p < gemm.k; ++p)
            sum += (gemm.op_a ? at(product.a, of, p, i) : at(product.a, of, i, p)) *
                   (gemm.op_b ? at(product.b, of, j, p) : at(product.b, of, p, j));
        double value = alpha * sum * scale_of(gemm.scale_a) * scale_of(gemm.scale_b);
        if (beta != 0) value += beta * at(product.addend, of, i, j);
        value = after(gemm, value, of, i, j);
        gradients[static_cast<std::size_t>(i)] += value;
        auto* d = static_cast<char*>(const_cast<void*>(gemm.c.data));
        from_double(element(gemm.c.type), value, d + offset_in(product.d, of, i, j));
      }
    if ((gemm.epilogue & kLtBiasGradient) == 0 || !gemm.bias.data) continue;
    const DType type = element(gemm.bias.type < 0 ? gemm.c.type : gemm.bias.type);
    for (std::int64_t i = 0; i < gemm.m; ++i)
      from_double(type, gradients[static_cast<std::size_t>(i)],
                  static_cast<char*>(const_cast<void*>(gemm.bias.data)) +
                      (of * gemm.bias.stride + i) * bytes_of(type));
  }
  return kSuccess;
}

Status multiply(Handle handle, const Gemm& gemm) {
  ++products;
  if (!handle) return kNotInitialized;
  if (is_refused(gemm, gemm.op_a ? gemm.k : gemm.m, gemm.op_b ? gemm.n : gemm.k, gemm.m))
    return kInvalidValue;
  return multiply(FullProduct{gemm, {gemm.a}, {gemm.b}, {gemm.c}, {gemm.c}});
}

int scalar_type(int compute) {
  switch (compute) {
    case kCompute16:
    case kCompute16 + 1:  // pedantic, like the other types of this distance
      return kF16;
    case kCompute64:
    case kCompute64 + 1:
      return kF64;
    case kComputeI32:
    case kComputeI32 + 1:
      return kI32;
    default:
      return kF32;
  }
}

template <class Descriptor>
Status set(Descriptor* described, int name, const void* value, std::size_t bytes) {
  if (static_cast<std::size_t>(name) >= std::size(described->data) || bytes > 8)
    return kInvalidValue;
  described->data[name] = 0;
  std::memcpy(&described->data[name], value, bytes);
  return kSuccess;
}
template <class Descriptor>
Status get(const Descriptor* described, int name, void* value, std::size_t bytes,
           std::size_t* written) {
  if (static_cast<std::size_t>(name) >= std::size(described->data) || bytes > 8)
    return kInvalidValue;
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
FAKE Status cublasSetStream_v2(Handle handle, CUstream_st* stream) {
  static_cast<State*>(handle)->stream = stream;
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
  FAKE Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha, \
                   const void* a, Int lda, const void* b, Int ldb, const void* beta, void* c, \
                   Int ldc) {                                                                 \
    return multiply(handle, {op_a,                                                            \
                             op_b,                                                            \
                             m,                                                               \
                             n,                                                               \
                             k,                                                               \
                             {a, type, lda},                                                  \
                             {b, type, ldb},                                                  \
                             {c, type, ldc},                                                  \
                             1,                                                               \
                             how,                                                             \
                             type,                                                            \
                             false,                                                           \
                             alpha,                                                           \
                             beta});                                                          \
  }
FAKE_GEMM(cublasSgemm_v2, int, kF32, kCompute32)
FAKE_GEMM(cublasSgemm_v2_64, std::int64_t, kF32, kCompute32)
FAKE_GEMM(cublasDgemm_v2, int, kF64, kCompute64)
FAKE_GEMM(cublasDgemm_v2_64, std::int64_t, kF64, kCompute64)
FAKE_GEMM(cublasHgemm, int, kF16, kCompute16)
FAKE_GEMM(cublasHgemm_64, std::int64_t, kF16, kCompute16)

#define FAKE_BATCHED(name, Int, type, how)                                                     \
  FAKE Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,  \
                   const void* a, Int lda, long long stride_a, const void* b, Int ldb,         \
                   long long stride_b, const void* beta, void* c, Int ldc, long long stride_c, \
                   Int batch) {                                                                \
    return multiply(handle, {op_a,                                                             \
                             op_b,                                                             \
                             m,                                                                \
                             n,                                                                \
                             k,                                                                \
                             {a, type, lda, stride_a},                                         \
                             {b, type, ldb, stride_b},                                         \
                             {c, type, ldc, stride_c},                                         \
                             batch,                                                            \
                             how,                                                              \
                             type,                                                             \
                             false,                                                            \
                             alpha,                                                            \
                             beta});                                                           \
  }
FAKE_BATCHED(cublasSgemmStridedBatched, int, kF32, kCompute32)
FAKE_BATCHED(cublasSgemmStridedBatched_64, std::int64_t, kF32, kCompute32)
FAKE_BATCHED(cublasDgemmStridedBatched, int, kF64, kCompute64)
FAKE_BATCHED(cublasDgemmStridedBatched_64, std::int64_t, kF64, kCompute64)
FAKE_BATCHED(cublasHgemmStridedBatched, int, kF16, kCompute16)
FAKE_BATCHED(cublasHgemmStridedBatched_64, std::int64_t, kF16, kCompute16)

#define FAKE_EX(name, Int)                                                                    \
  FAKE Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha, \
                   const void* a, int a_type, Int lda, const void* b, int b_type, Int ldb,    \
                   const void* beta, void* c, int c_type, Int ldc, int compute, int) {        \
    return multiply(handle, {op_a,                                                            \
                             op_b,                                                            \
                             m,                                                               \
                             n,                                                               \
                             k,                                                               \
                             {a, a_type, lda},                                                \
                             {b, b_type, ldb},                                                \
                             {c, c_type, ldc},                                                \
                             1,                                                               \
                             compute,                                                         \
                             scalar_type(compute),                                            \
                             false,                                                           \
                             alpha,                                                           \
                             beta});                                                          \
  }
FAKE_EX(cublasGemmEx, int)
FAKE_EX(cublasGemmEx_64, std::int64_t)

#define FAKE_BATCHED_EX(name, Int)                                                                 \
  FAKE Status name(Handle handle, int op_a, int op_b, Int m, Int n, Int k, const void* alpha,      \
                   const void* a, int a_type, Int lda, long long stride_a, const void* b,          \
                   int b_type, Int ldb, long long stride_b, const void* beta, void* c, int c_type, \
                   Int ldc, long long stride_c, Int batch, int compute, int) {                     \
    return multiply(handle, {op_a,                                                                 \
                             op_b,                                                                 \
                             m,                                                                    \
                             n,                                                                    \
                             k,                                                                    \
                             {a, a_type, lda, stride_a},                                           \
                             {b, b_type, ldb, stride_b},                                           \
                             {c, c_type, ldc, stride_c},                                           \
                             batch,                                                                \
                             compute,                                                              \
                             scalar_type(compute),                                                 \
                             false,                                                                \
                             alpha,                                                                \
                             beta});                                                               \
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
FAKE Status cublasLtMatmulDescCreate(LtProduct** made, int compute, int scalar) {
  *made = new LtProduct{};
  (*made)->data[kLtCompute] = static_cast<std::uint64_t>(compute);
  (*made)->data[kLtScaleType] = static_cast<std::uint64_t>(scalar);
  (*made)->data[kLtFill] = kLtFullFill;
  (*made)->data[kLtEpilogue] = kLtNoEpilogue;
  (*made)->data[kLtBiasType] = (*made)->data[kLtAuxType] = static_cast<std::uint64_t>(-1);
  return kSuccess;
}
FAKE Status cublasLtMatmulDescDestroy(LtProduct* product) {
  delete product;
  return kSuccess;
}
FAKE Status cublasLtMatrixLayoutCreate(LtMatrix** made, int type, std::uint64_t rows,
                                       std::uint64_t columns, std::int64_t ld) {
  *made = new LtMatrix{};
  (*made)->data[kLtType] = static_cast<std::uint64_t>(type);
  (*made)->data[kLtRows] = rows, (*made)->data[kLtColumns] = columns;
  (*made)->data[kLtLd] = static_cast<std::uint64_t>(ld);
  (*made)->data[kLtBatch] = 1;
  return kSuccess;
}
FAKE Status cublasLtMatrixLayoutDestroy(LtMatrix* matrix) {
  delete matrix;
  return kSuccess;
}
/// Supports the epilogues that the drop-in answers, and scales of A and B.
FAKE Status cublasLtMatmul(Handle handle, const LtProduct* said, const void* alpha, const void* a,
                           const LtMatrix* a_matrix, const void* b, const LtMatrix* b_matrix,
                           const void* beta, const void* c, const LtMatrix* c_matrix, void* d,
                           const LtMatrix* d_matrix, const void*, void*, std::size_t,
                           CUstream_st*) {
  ++products;
  if (!handle) return kNotInitialized;
  const auto number = [](const auto* of, int name) {
    return static_cast<std::int64_t>(of->data[name]);
  };
  const auto whole = [&](const auto* of, int name) { return static_cast<int>(number(of, name)); };
  const auto placed = [&](const void* data, const LtMatrix* matrix) {
    return Placed{{data, whole(matrix, kLtType), number(matrix, kLtLd), number(matrix, kLtStride)},
                  number(matrix, kLtOrder) != kLtColumnMajor};
  };
  const auto least = [&](const LtMatrix* matrix) {
    return number(matrix, number(matrix, kLtOrder) == kLtColumnMajor ? kLtRows : kLtColumns);
  };
  FullProduct product;
  product.a = placed(a, a_matrix), product.b = placed(b, b_matrix);
  product.addend = placed(c, c_matrix ? c_matrix : d_matrix), product.d = placed(d, d_matrix);
  Gemm& gemm = product.gemm;
  gemm.epilogue = whole(said, kLtEpilogue);
  gemm.bias = {reinterpret_cast<const void*>(said->data[kLtBias]), whole(said, kLtBiasType), 0,
               number(said, kLtBiasStride)};
  gemm.aux = {reinterpret_cast<const void*>(said->data[kLtAuxPointer]), whole(said, kLtAuxType),
              number(said, kLtAuxLd), number(said, kLtAuxStride)};
  gemm.op_a = whole(said, kLtTransA), gemm.op_b = whole(said, kLtTransB);
  gemm.m = number(d_matrix, kLtRows), gemm.n = number(d_matrix, kLtColumns);
  gemm.k = number(a_matrix, gemm.op_a ? kLtRows : kLtColumns);
  gemm.a = product.a.matrix, gemm.b = product.b.matrix, gemm.c = product.d.matrix;
  gemm.batch = number(d_matrix, kLtBatch);
  gemm.scalar = whole(said, kLtScaleType);
  gemm.alpha = alpha, gemm.beta = beta;
  gemm.scale_a = reinterpret_cast<const void*>(said->data[kLtScaleA]);
  gemm.scale_b = reinterpret_cast<const void*>(said->data[kLtScaleB]);
  if (is_refused(gemm, least(a_matrix), least(b_matrix), least(d_matrix))) return kInvalidValue;
  return multiply(product);
}
