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

/// cublasLt's epilogue that computes a problem's: cublasLtEpilogue_t, 1 where the problem has none.
/// Empty where cublasLt has no such epilogue. One with a bias has the epilogue's only operand.
std::optional<std::int32_t> lt_epilogue(const Problem& problem);

/// alpha or beta in the type that the library reads.
union BlasScalar {
  float f32;
  double f64;
  std::int32_t i32;
};
BlasScalar blas_scalar(double value, DType accumulator);

}  // namespace tilewise::cuda
