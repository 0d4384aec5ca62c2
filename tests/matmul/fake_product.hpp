#pragma once
#include <cmath>

#include "tests/support/fake_compiler.hpp"
#include "tests/support/fake_device.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// The argument struct of multiply kernels; see templates/parts/arguments.cuh.
struct FakeMultiplyArgs {
  const float* a;
  const float* b;
  float* c;
  const float* alpha_device;
  const float* beta_device;
  std::int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, m, n, k, part_tiles;
  std::int32_t splits, tiles_m, tiles_n, group_m, divisors[10];
  float alpha, beta;
};

inline bool define_of(const KernelSpec& kernel, const std::string& name) {
  for (const auto& [known, value] : kernel.defines)
    if (known == name) return value != 0;
  return false;
}

/// A multiply kernel without splits, on the host, for FakeDevice::on_launch.
inline void fake_product(const KernelSpec& kernel, const LaunchShape&, const void* arguments,
                         Stream) {
  FakeMultiplyArgs x;
  std::memcpy(&x, arguments, sizeof x);
  const bool ta = define_of(kernel, "A_TRANSPOSED"), tb = define_of(kernel, "B_TRANSPOSED");
  const float alpha = x.alpha_device ? *x.alpha_device : x.alpha;
  const float beta = x.beta_device ? *x.beta_device : x.beta;
  for (std::int64_t i = 0; i < x.m; ++i)
    for (std::int64_t j = 0; j < x.n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < x.k; ++p)
        sum = std::fma(ta ? x.a[p * x.lda + i] : x.a[i * x.lda + p],
                       tb ? x.b[j * x.ldb + p] : x.b[p * x.ldb + j], sum);
      float& c = x.c[i * x.ldc + j];
      c = alpha * sum + (beta == 0 ? 0 : beta * c);
    }
}

}  // namespace tilewise
