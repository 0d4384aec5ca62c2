// Somebody else's program: it sees only what an installed Tilewise gives.
#include <cstdio>
#include <string>

#include "tilewise/matmul.hpp"
#include "tilewise/record.hpp"

int main() {
  // Links everything behind the entry point; without a GPU the error must arrive as one of ours.
  try {
    tilewise::Matmul matmul;
    std::puts("a device is here");
  } catch (const tilewise::Error& error) {
    std::printf("%s: %s\n", tilewise::to_string(error.kind()), error.what());
  }
  const auto problem = tilewise::problem_from_json(R"({"layout":"nn","m":64,"n":64,"k":64})");
  const bool right = tilewise::flops_of(problem) == 2.0 * 64 * 64 * 64;
  std::puts(right ? "consumer works" : "wrong count");
  return right ? 0 : 1;
}
