#pragma once
#include "drop_in/product.hpp"

namespace tilewise::drop_in {

/// The arguments of cublasLtMatmul() except the stream.
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

/// The product of a call. Descriptors are read by cublasLt's own functions and cached by their
/// contents. Thread-safe.
Why gemm_of(const LtCall& call, Gemm& gemm);

}  // namespace tilewise::drop_in
