#pragma once
#include <cstdint>
#include <string>

#include "device/cuda/cuda.hpp"

/// How a problem is put to cuBLAS and cublasLt: plain values, no library needed. The numbers are
/// those of their headers (library_types.h, cublas_api.h), which are not needed to build.
namespace tilewise::cuda {

inline constexpr int kNotTransposed = 0, kTransposed = 1;  // cublasOperation_t

/// cudaDataType_t of an element type.
int blas_type(DType type);

/// Both libraries are column-major, so they are asked for C^T = op(B)^T op(A)^T: a row-major matrix
/// is its own transpose, and the operands change places. `first` is our B, `second` our A, the
/// product is n x m x k in their terms.
struct BlasTerms {
  int op_first = kNotTransposed, op_second = kNotTransposed;
  int operand = 0, result = 0;
  int addend = 0;   ///< what beta multiplies: C's type, bf16 where C is 8-bit floats
  int compute = 0;  ///< cublasComputeType_t
  int scalar = 0;   ///< of alpha and beta
};
/// f32x3 is asked for as strict f32: the libraries have nothing nearer. Requires a problem of
/// product_kinds().
BlasTerms blas_terms(const Problem& problem, CublasMath math = CublasMath::default_);

/// A host's alpha or beta as the library reads it.
union BlasScalar {
  float f32;
  double f64;
  std::int32_t i32;
};
BlasScalar blas_scalar(double value, DType accumulator);

}  // namespace tilewise::cuda
