// Tilewise in a program: one object, one call on host pointers. With device pointers, leave out
// `.host` and pass the stream.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tilewise/matmul.hpp"

int main(int argc, char** argv) try {
  const std::int64_t m = 512, n = 256, k = 1024;
  const std::vector<float> a(m * k, 0.5F), b(k * n, 2.0F);
  std::vector<float> c(m * n);
  tilewise::MatmulOptions options;
  if (argc > 1) options.device = argv[1];  // "host" where there is no GPU
  tilewise::Matmul matmul(options);
  matmul.host(tilewise::Layout::nn, m, n, k, 1.0F, a.data(), k, b.data(), n, 0.0F, c.data(), n);
  std::printf("C[0][0..2] = %g %g %g (each is %g)\n", c[0], c[1], c[2], 0.5 * 2.0 * k);
  const tilewise::Match match =
      matmul.explain(tilewise::typed_problem<float, float>(tilewise::Layout::nn, m, n, k));
  std::printf("%s match, %s: %s\n", std::string(to_string(match.kind)).c_str(),
              match.kernel_template.c_str(), match.why.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
