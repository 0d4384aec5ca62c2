// Somebody else's program: it sees only what an installed Tilewise gives.
#include <cstdio>
#include <string>

#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/record.hpp"

namespace {

/// Every form of the entry point compiles outside the tree and links.
void product(tilewise::Matmul& matmul) {
  float one = 1, c = 0;
  tilewise::f16 half{};
  tilewise::narrow(tilewise::DType::f16, &one, 1, &half);
  matmul.host(tilewise::Layout::nn, 1, 1, 1, 1, &one, 1, &one, 1, 0, &c, 1);
  matmul.host(tilewise::Layout::nn, 1, 1, 1, 1, &half, 1, &half, 1, 0, &c, 1);
  std::printf("1 x 1 = %g\n", double(c));
}

}  // namespace

int main() {
  // Links everything behind the entry point; without a GPU the error must arrive as one of ours.
  try {
    tilewise::Matmul matmul;
    std::puts("a device is here");
    product(matmul);
  } catch (const tilewise::Error& error) {
    std::printf("%s: %s\n", tilewise::to_string(error.kind()), error.what());
  }
  const auto problem = tilewise::problem_from_json(R"({"layout":"nn","m":64,"n":64,"k":64})");
  const bool right = tilewise::flops_of(problem) == 2.0 * 64 * 64 * 64;
  std::puts(right ? "consumer works" : "wrong count");
  return right ? 0 : 1;
}
