// sgemm and dgemm of BLAS (column-major, Fortran interface) over Tilewise on the CPU executor.
// Preloaded under netlib's testers, they replace the BLAS that a tester is linked with.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tilewise/matmul.hpp"

// Defined by the tester, which records the number of the bad argument.
extern "C" void xerbla_(const char* name, const int* argument, int name_length);

namespace {

using tilewise::Layout;

tilewise::Matmul& multiply() {
  static tilewise::Matmul matmul = [] {
    tilewise::MatmulOptions options;
    options.device = "host";
    return tilewise::Matmul(options);
  }();
  return matmul;
}

bool is_transposed(char letter) { return letter != 'N' && letter != 'n'; }
bool is_letter(char letter) {
  return letter == 'N' || letter == 'n' || letter == 'T' || letter == 't' || letter == 'C' ||
         letter == 'c';
}

/// A column-major matrix is its transpose in row-major order: C^T = op(B)^T op(A)^T.
Layout layout_of(bool a_transposed, bool b_transposed) {
  if (a_transposed && b_transposed) return Layout::tt;
  if (a_transposed) return Layout::nt;
  return b_transposed ? Layout::tn : Layout::nn;
}

template <class T>
void gemm(const char* name, char trans_a, char trans_b, int m, int n, int k, T alpha, const T* a,
          int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  const bool ta = is_transposed(trans_a), tb = is_transposed(trans_b);
  const int bad = !is_letter(trans_a)             ? 1
                  : !is_letter(trans_b)           ? 2
                  : m < 0                         ? 3
                  : n < 0                         ? 4
                  : k < 0                         ? 5
                  : lda < std::max(1, ta ? k : m) ? 8
                  : ldb < std::max(1, tb ? n : k) ? 10
                  : ldc < std::max(1, m)          ? 13
                                                  : 0;
  if (bad != 0) return xerbla_(name, &bad, 6);
  try {
    multiply()(layout_of(ta, tb), n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    std::abort();
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void sgemm_(const char* trans_a, const char* trans_b,
                                                   const int* m, const int* n, const int* k,
                                                   const float* alpha, const float* a,
                                                   const int* lda, const float* b, const int* ldb,
                                                   const float* beta, float* c, const int* ldc) {
  gemm("SGEMM ", *trans_a, *trans_b, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

__attribute__((visibility("default"))) void dgemm_(const char* trans_a, const char* trans_b,
                                                   const int* m, const int* n, const int* k,
                                                   const double* alpha, const double* a,
                                                   const int* lda, const double* b, const int* ldb,
                                                   const double* beta, double* c, const int* ldc) {
  gemm("DGEMM ", *trans_a, *trans_b, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}
}
