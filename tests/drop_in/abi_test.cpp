// The numbers of drop_in/abi.hpp are those of NVIDIA's headers, if these are installed.
#include "drop_in/abi.hpp"

#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

namespace tilewise::drop_in {
namespace {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS &&
              kNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(kNotTransposed == CUBLAS_OP_N && kTransposed == CUBLAS_OP_T &&
              kConjugate == CUBLAS_OP_C);
static_assert(kPointersOnHost == CUBLAS_POINTER_MODE_HOST);
static_assert(kAnyAlgorithm == CUBLAS_GEMM_DEFAULT &&
              kAnyTensorAlgorithm == CUBLAS_GEMM_DEFAULT_TENSOR_OP);
static_assert(kDefaultMath == CUBLAS_DEFAULT_MATH && kTf32Math == CUBLAS_TF32_TENSOR_OP_MATH &&
              kNoReducedSums == CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
static_assert(kF32 == CUDA_R_32F && kF64 == CUDA_R_64F && kF16 == CUDA_R_16F && kI8 == CUDA_R_8I &&
              kI32 == CUDA_R_32I && kBf16 == CUDA_R_16BF && kE4m3 == CUDA_R_8F_E4M3 &&
              kE5m2 == CUDA_R_8F_E5M2);
static_assert(kCompute16 == CUBLAS_COMPUTE_16F && kCompute32 == CUBLAS_COMPUTE_32F &&
              kCompute64 == CUBLAS_COMPUTE_64F && kComputeI32 == CUBLAS_COMPUTE_32I &&
              kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kLtCompute == CUBLASLT_MATMUL_DESC_COMPUTE_TYPE &&
              kLtScaleType == CUBLASLT_MATMUL_DESC_SCALE_TYPE &&
              kLtPointerMode == CUBLASLT_MATMUL_DESC_POINTER_MODE &&
              kLtTransA == CUBLASLT_MATMUL_DESC_TRANSA &&
              kLtTransB == CUBLASLT_MATMUL_DESC_TRANSB &&
              kLtTransC == CUBLASLT_MATMUL_DESC_TRANSC &&
              kLtFill == CUBLASLT_MATMUL_DESC_FILL_MODE &&
              kLtEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              kLtSmCount == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET &&
              kLtScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER &&
              kLtScaleD == CUBLASLT_MATMUL_DESC_D_SCALE_POINTER &&
              kLtAmax == CUBLASLT_MATMUL_DESC_AMAX_D_POINTER &&
              kLtFastSums == CUBLASLT_MATMUL_DESC_FAST_ACCUM);
static_assert(kLtFullFill == CUBLAS_FILL_MODE_FULL && kLtNoEpilogue == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(kLtType == CUBLASLT_MATRIX_LAYOUT_TYPE && kLtOrder == CUBLASLT_MATRIX_LAYOUT_ORDER &&
              kLtRows == CUBLASLT_MATRIX_LAYOUT_ROWS && kLtColumns == CUBLASLT_MATRIX_LAYOUT_COLS &&
              kLtLd == CUBLASLT_MATRIX_LAYOUT_LD &&
              kLtBatch == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              kLtStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
              kLtPlane == CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET &&
              kLtColumnMajor == CUBLASLT_ORDER_COL);
#if CUBLAS_VER_MAJOR >= 13
static_assert(kLtScaleModes == CUBLASLT_MATMUL_DESC_A_SCALE_MODE &&
              kLtScaleOut == CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER &&
              kLtEmulation == CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR);
static_assert(sizeof(LtProduct) == sizeof(cublasLtMatmulDescOpaque_t) &&
              sizeof(LtMatrix) == sizeof(cublasLtMatrixLayoutOpaque_t));
#endif

TEST(Abi, IsThatOfTheHeadersAtCompileTime) { SUCCEED(); }

}  // namespace
}  // namespace tilewise::drop_in
#else
TEST(Abi, IsThatOfTheHeadersAtCompileTime) { GTEST_SKIP() << "cuBLAS's headers are not installed"; }
#endif
