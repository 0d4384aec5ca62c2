#pragma once
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "device/cpu/cpu.hpp"

namespace tilewise::test {

/// The kernel dialect of the source tree (device/ does not depend on templates/).
inline std::string dialect_text() {
  std::ifstream file(std::string(TILEWISE_SOURCE_DIR) + "/templates/words/dialect.cuh");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The CPU with a test's own kernels: source NAME.cu with the entry NAME.
class CpuKernels {
 public:
  explicit CpuKernels(const cpu::CpuOptions& options = {}, const std::string& flags = "-O1")
      : device_(cpu::open_device("host", options)), compiler_(cpu::load_compiler({flags, ""})) {}

  Device& device() { return *device_; }
  CompileResult compile(const std::string& name, const std::string& text) const {
    return compiler_->compile({{name + ".cu", name, {}},
                               text,
                               {{"words/dialect.cuh", dialect_text()}},
                               device_->info().target});
  }
  std::unique_ptr<LoadedKernel> load(const std::string& name, const std::string& text,
                                     std::uint32_t shared_bytes = 0) {
    const CompileResult made = compile(name, text);
    if (!made.image) throw std::runtime_error(made.log);
    return device_->load(*made.image, shared_bytes, 1);
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace tilewise::test
