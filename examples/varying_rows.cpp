// Products with a varying number of rows, as a server has them. The range is prepared once; then no
// product compiles or loads a kernel. Problems that were not tuned are written to a list, which
// `autotune tune --problems` reads.
#include <tilewise/matmul.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  tilewise::MatmulOptions options;
  if (argc > 1) options.device = argv[1];  // "host" where there is no GPU
  if (argc > 2) {
    options.on_miss = tilewise::OnMiss::record;
    options.missed_list = argv[2];
  }
  tilewise::Matmul multiply(options);

  const std::int64_t most = 64, n = 96, k = 80;
  const auto layout = tilewise::Layout::nt;
  multiply.prepare_range(tilewise::typed_problem<float, float>(layout, 1, n, k), most);

  const std::vector<float> a(most * k, 1.0f), b(n * k, 0.25f);
  std::vector<float> c(most * n);
  double longest_us = 0;
  for (std::int64_t m = 1; m <= most; ++m) {
    const auto begin = Clock::now();
    multiply.host(layout, m, n, k, 1.0f, a.data(), k, b.data(), k, 0.0f, c.data(), n);
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    longest_us = time.count() > longest_us ? time.count() : longest_us;
    if (c[m * n - 1] != 20) return std::printf("wrong at m = %d\n", static_cast<int>(m)), 1;
  }
  std::printf("%d products, the longest took %.0f us\n", static_cast<int>(most), longest_us);
}
