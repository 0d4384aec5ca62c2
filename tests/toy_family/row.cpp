// The toy family's row of the catalog. It is added before main() instead of by a line in
// families.hpp, and its sources are read from the tree instead of being built into the program.
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"

namespace tilewise {

KernelTemplate toy_template();

namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(TILEWISE_SOURCE_DIR "/tests/toy_family/" + name);
  if (!file) throw std::runtime_error("cannot read " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

const bool added = [] {
  KernelSource source{"toy.cu", text_of("toy.cu"), kernel_source("naive.cu").headers};
  source.headers.emplace_back("families/toy/toy_layout.hpp", text_of("toy_layout.hpp"));
  add_kernel_source(std::move(source));
  add_template(toy_template());
  return true;
}();

}  // namespace
}  // namespace tilewise
