// A program that uses only cuBLAS: products of two shapes, one of them in the child of a fork().
// With an argument it then waits for a signal.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSgemm_v2(void* handle, int op_a, int op_b, int m, int n, int k, const float* alpha,
                   const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                   int ldc);
int fake_cublas_products();
}

int main(int count, char**) {
  void* handle = nullptr;
  if (cublasCreate_v2(&handle) != 0) return 1;
  const float alpha = 1, beta = 0;
  std::vector<float> a(64 * 64, 1), b(64 * 64, 2), c(64 * 64, -1);
  const auto multiply = [&](int m, int n, int k) {
    return cublasSgemm_v2(handle, 0, 0, m, n, k, &alpha, a.data(), m, b.data(), k, &beta, c.data(),
                          m);
  };
  for (int i = 0; i < 3; ++i)
    if (multiply(24, 40, 16) != 0 || c[0] != 32) return 2;
  if (multiply(7, 5, 3) != 0 || c[0] != 6) return 3;
  if (const pid_t child = fork(); child == 0) {
    const bool right = multiply(24, 40, 16) == 0 && c[0] == 32;
    _exit(right ? 0 : 4);
  } else {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
  }
  std::printf("reached cuBLAS: %d\n", fake_cublas_products());
  std::fflush(stdout);
  while (count > 1) pause();
  return cublasDestroy_v2(handle);
}
