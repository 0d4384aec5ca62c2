#pragma once
#include <cstdint>

#include "device/cuda/cublas_terms.hpp"

/// The part of cuBLAS's binary interface that the drop-in answers, as plain values. The numbers are
/// those of cublas_api.h, cublasLt.h and library_types.h of CUDA 12 and 13. The build needs neither
/// the headers nor the library.
namespace tilewise::drop_in {

using Status = int;  // cublasStatus_t
inline constexpr Status kSuccess = 0, kNotInitialized = 1, kNotSupported = 15;
using Handle = void*;

inline constexpr int kNotTransposed = 0, kTransposed = 1, kConjugate = 2;  // cublasOperation_t
// cublasPointerMode_t; cublasLt has further ones.
inline constexpr int kPointersOnHost = 0, kPointersOnDevice = 1;
// cublasGemmAlgo_t: the library's own choice, under two names.
inline constexpr int kAnyAlgorithm = -1, kAnyTensorAlgorithm = 99;

// cublasMath_t: a mode, and a flag for sums in lower precision.
inline constexpr int kDefaultMath = 0, kTensorOpMath = 1, kTf32Math = 3;
inline constexpr int kNoReducedSums = 16;

// cudaDataType_t.
inline constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kI8 = 3, kI32 = 10, kBf16 = 14, kE4m3 = 28,
                     kE5m2 = 29;

// cublasComputeType_t.
inline constexpr int kCompute16 = 64, kCompute32 = 68, kCompute64 = 70, kComputeI32 = 72,
                     kComputeTf32 = 77;

// cublasLtMatmulDescAttributes_t.
inline constexpr int kLtCompute = 0, kLtScaleType = 1, kLtPointerMode = 2, kLtTransA = 3,
                     kLtTransB = 4, kLtTransC = 5, kLtFill = 6, kLtEpilogue = 7, kLtBias = 8,
                     kLtBiasStride = 10, kLtAuxPointer = 11, kLtAuxLd = 12, kLtAuxStride = 13,
                     kLtAuxType = 22, kLtAuxScale = 23, kLtAuxAmax = 24, kLtSmCount = 15,
                     kLtScaleA = 17, kLtScaleB = 18, kLtScaleC = 19, kLtScaleD = 20, kLtAmax = 21,
                     kLtFastSums = 25, kLtBiasType = 26, kLtSyncFirst = 27, kLtSyncLast = 30,
                     kLtScaleModes = 31, kLtScaleModesEnd = 35, kLtScaleOut = 36, kLtEmulation = 38;
inline constexpr int kLtFullFill = 2;
using cuda::kLtNoEpilogue, cuda::kLtRelu, cuda::kLtWithBias, cuda::kLtGelu, cuda::kLtAux,
    cuda::kLtGeluAux, cuda::kLtBiasGradient, cuda::kLtOfGelu, cuda::kLtOfGeluAndBias;

// cublasLtMatrixLayoutAttribute_t.
inline constexpr int kLtType = 0, kLtOrder = 1, kLtRows = 2, kLtColumns = 3, kLtLd = 4,
                     kLtBatch = 5, kLtStride = 6, kLtPlane = 7, kLtBatchMode = 8;
inline constexpr int kLtColumnMajor = 0;

/// The contents of cublasLt's descriptors, which are opaque but have a fixed size.
struct LtProduct {
  std::uint64_t data[32];
};
struct LtMatrix {
  std::uint64_t data[8];
};

}  // namespace tilewise::drop_in
