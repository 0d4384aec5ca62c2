#pragma once
#include <cstdint>
#include <optional>

#include "device/cuda/cuda.hpp"

/// A problem in the terms of cuBLAS and cublasLt, as plain values. The numbers are those of
/// library_types.h and cublas_api.h; a build needs neither header nor library.
namespace tilewise::cuda {

inline constexpr int kNotTransposed = 0, kTransposed = 1;  // cublasOperation_t

/// cudaDataType_t of an element type.
int blas_type(DType type);

/// The inverse; empty for a type that no product has.
std::optional<DType> type_of_blas(int type);

/// Both libraries are column-major, so they read a row-major matrix as its transpose and compute
/// C^T = op(B)^T op(A)^T: an n x m x k product with our B as `first` and our A as `second`.
struct BlasTerms {
  int op_first = kNotTransposed, op_second = kNotTransposed;
  int operand = 0, result = 0;
  int addend = 0;   ///< type of the matrix that beta multiplies: C's, bf16 where C is 8-bit floats
  int compute = 0;  ///< cublasComputeType_t
  int scalar = 0;   ///< type of alpha and beta
  bool fast_sums = false;  ///< cublasLt's fast accumulation of 8-bit floats
};
/// f32x3 becomes strict f32, the nearest mode of the libraries. Requires a problem of
/// product_kinds().
BlasTerms blas_terms(const Problem& problem, CublasMath math = CublasMath::default_);

// cublasLtEpilogue_t. ReLU and GELU (that by tanh) may have a bias. GELU may also store its
// argument; kLtOfGelu is its derivative at that argument times the product, perhaps with the sum
// over D's columns, in the place of the bias.
inline constexpr int kLtNoEpilogue = 1, kLtRelu = 2, kLtWithBias = 4, kLtGelu = 32, kLtAux = 128,
                     kLtGeluAux = kLtGelu | kLtAux, kLtBiasGradient = 16, kLtOfGelu = 64 | kLtAux,
                     kLtOfGeluAndBias = kLtOfGelu | kLtBiasGradient;

/// What cublasLt computes after a product, apart from alpha, and beta where C is D. As an
/// Epilogue its operands are named scale_a, scale_b, beta, addend, bias and aux.
struct LtEpilogue {
  int number = kLtNoEpilogue;             ///< a cublasLtEpilogue_t
  bool scale_a = false, scale_b = false;  ///< factors in device memory
  bool addend = false;                    ///< beta times a C apart from D
  bool operator==(const LtEpilogue&) const = default;
};

/// Null where nothing is computed, and for an epilogue of cublasLt that is none of ours. The object
/// is never destroyed. Thread-safe.
const Epilogue* epilogue_of(const LtEpilogue& terms);
/// cublasLt's epilogue that computes a problem's, with its operands' slots by epilogue_of(). Empty
/// where cublasLt has no such epilogue.
std::optional<LtEpilogue> lt_epilogue(const Problem& problem);

/// alpha or beta in the type that the library reads.
union BlasScalar {
  float f32;
  double f64;
  std::int32_t i32;
};
BlasScalar blas_scalar(double value, DType accumulator);

}  // namespace tilewise::cuda
