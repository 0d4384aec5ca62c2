#include <tilewise/matmul.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  tilewise::MatmulOptions options;
  if (argc > 1) options.device = argv[1];  // "host": the CPU
  options.bundle = "app.tilewise";
  options.compile_missing = false;  // a product that nothing serves is an error, not a compile
  tilewise::Matmul multiply(options);

  tilewise::Problem problem;  // f32; typed_problem() makes others
  problem.m = 96, problem.n = 80, problem.k = 64;
  multiply.prepare(problem);  // loads at start-up; a missing image is reported here

  std::vector<float> a(96 * 64, 0.5f), b(64 * 80, 2.0f), c(96 * 80);
  multiply.host(tilewise::Layout::nn, 96, 80, 64, 1.0f, a.data(), 64, b.data(), 80, 0.0f, c.data(),
                80);
  std::printf("C[0][0] = %g\n", c[0]);  // 64
}
