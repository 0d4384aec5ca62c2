#include <tilewise/matmul.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  tilewise::MatmulOptions options;
  if (argc > 1) options.device = argv[1];  // "host": the CPU; else this thread's CUDA device
  tilewise::Matmul multiply(options);

  const int m = 200, n = 300, k = 100;  // C (m x n) = A (m x k) B (k x n), row-major
  std::vector<float> a(m * k, 0.5f), b(k * n, 2.0f), c(m * n);
  multiply.host(tilewise::Layout::nn, m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, c.data(), n);
  std::printf("C[0][0] = %g\n", c[0]);
}
