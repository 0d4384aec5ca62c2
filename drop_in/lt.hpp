#pragma once
#include "drop_in/product.hpp"

namespace tilewise::drop_in {

/// What cublasLtMatmul() is given beside the stream.
struct LtCall {
  const LtProduct* product = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* a = nullptr;
  const LtMatrix* a_matrix = nullptr;
  const void* b = nullptr;
  const LtMatrix* b_matrix = nullptr;
  const void* c = nullptr;
  const LtMatrix* c_matrix = nullptr;
  void* d = nullptr;
  const LtMatrix* d_matrix = nullptr;
};

/// The product of a call without an epilogue, with scalars on the host and with D in place of C.
/// Descriptions are read by cublasLt's own functions, and remembered by their contents.
/// Thread-safe.
Why gemm_of(const LtCall& call, Gemm& gemm);

}  // namespace tilewise::drop_in
