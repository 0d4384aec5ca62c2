// A program outside the tree, with only the installed headers and libraries.
#include <cstdio>
#include <string>

#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"
#include "tilewise/version.hpp"

namespace {

/// All forms of the entry point compile outside the tree and link.
void product(tilewise::Matmul& matmul, tilewise::Stream stream = nullptr) {
  float one = 1, c = 0;
  tilewise::f16 half{};
  tilewise::narrow(tilewise::DType::f16, &one, 1, &half);
  matmul.host(tilewise::Layout::nn, 1, 1, 1, 1, &one, 1, &one, 1, 0, &c, 1);
  matmul.host(tilewise::Layout::nn, 1, 1, 1, 1, &half, 1, &half, 1, 0, &c, 1);
  if (stream) matmul(tilewise::Layout::nn, 1, 1, 1, 1, &one, 1, &one, 1, 0, &c, 1, stream);
  std::printf("1 x 1 = %g\n", double(c));
  const tilewise::Match match =
      matmul.explain(tilewise::typed_problem<float, float>(tilewise::Layout::nn, 1, 1, 1));
  std::printf("%s %s: %s\n", match.kernel_template.c_str(), match.configuration.c_str(),
              match.why.c_str());
}

}  // namespace

int main() {
  // An error of the library is caught by its type.
  bool caught = false;
  try {
    tilewise::parse_dtype("f31");
  } catch (const tilewise::Error& error) {
    caught = error.kind() == tilewise::ErrorKind::invalid_argument;
  }
  // Links the whole library. Without a GPU the error must arrive as a tilewise::Error.
  try {
    tilewise::Matmul matmul;
    std::puts("a device is here");
    product(matmul);
  } catch (const tilewise::Error& error) {
    std::printf("%s: %s\n", tilewise::to_string(error.kind()), error.what());
  }
  const auto problem = tilewise::typed_problem<float, float>(tilewise::Layout::nn, 64, 64, 64);
  const bool right = caught && tilewise::flops_of(problem) == 2.0 * 64 * 64 * 64 &&
                     tilewise::version() == tilewise::kVersion;
  std::puts(right ? "consumer works" : "wrong error, count or version");
  return right ? 0 : 1;
}
