// The same product in other types: half precision, integers, a batch, and f32 of a given accuracy.
// With device pointers, leave out `.host` and pass the stream.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"

namespace {

using tilewise::DType;
using tilewise::Layout;

/// 16-bit elements, with the bits of CUDA's __half; C in f32.
void half_precision(tilewise::Matmul& matmul) {
  const std::int64_t n = 64;
  const std::vector<float> halves(n * n, 0.5F);
  std::vector<tilewise::f16> a(n * n);
  tilewise::narrow(DType::f16, halves.data(), n * n, a.data());
  std::vector<float> c(n * n);
  matmul.host(Layout::nt, n, n, n, 1.0F, a.data(), n, a.data(), n, 0.0F, c.data(), n);
  std::printf("f16:  C[0][0] = %g\n", double(c[0]));
}

/// Integers, exact: alpha and beta are integers, too.
void integers(tilewise::Matmul& matmul) {
  const std::vector<std::int8_t> a{1, 2, 3, 4}, b{5, 6, 7, 8};
  std::vector<std::int32_t> c(4, 100);
  matmul.host(Layout::nn, 2, 2, 2, 10, a.data(), 2, b.data(), 2, 1, c.data(), 2);
  std::printf("i8:   C = %d %d %d %d\n", c[0], c[1], c[2], c[3]);
}

/// Three products in one call, of three matrices A with one B (its stride is 0).
void batch(tilewise::Matmul& matmul) {
  const std::vector<double> a{1, 0, 0, 1, 2, 0, 0, 2, 3, 0, 0, 3}, b{1, 2, 3, 4};
  std::vector<double> c(12);
  const auto problem = tilewise::typed_problem<double, double>(
      Layout::nn, 2, 2, 2, tilewise::MathMode::strict, /*batch=*/3);
  tilewise::Call call;
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = call.ldb = call.ldc = 2;
  call.stride_a = call.stride_c = 4;
  matmul.host(problem, call);
  std::printf("f64:  C[2][1][1] = %g\n", c[11]);
}

/// f32 with an error of at most `accuracy`: faster than strict where there are tensor cores.
void within_accuracy(tilewise::Matmul& matmul, double accuracy) {
  const std::int64_t n = 64;
  auto problem = tilewise::typed_problem<float, float>(Layout::nn, n, n, n);
  problem.math = matmul.fastest_within(problem, accuracy);
  const std::vector<float> a(n * n, 0.1F);
  std::vector<float> c(n * n);
  matmul.host(Layout::nn, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n, problem.math);
  std::printf("f32:  C[0][0] = %.7g by %s, which promises %.2g\n", double(c[0]),
              std::string(to_string(problem.math)).c_str(), tilewise::error_bound(problem));
}

}  // namespace

int main(int argc, char** argv) try {
  tilewise::MatmulOptions options;
  if (argc > 1) options.device = argv[1];  // "host" where there is no GPU
  tilewise::Matmul matmul(options);
  half_precision(matmul);
  integers(matmul);
  batch(matmul);
  within_accuracy(matmul, 1e-4);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
