#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/compiler.hpp"

namespace tilewise {

/// Makes an image of every kernel except those that `refuse` selects. Thread-safe.
class FakeCompiler : public Compiler {
 public:
  /// `compiles` counts the compiles; kernels with the source `refused` are refused.
  explicit FakeCompiler(std::atomic<int>* compiles = nullptr, const std::string& refused = "")
      : compiles_(compiles) {
    if (!refused.empty())
      refuse = [refused](const KernelSpec& kernel) { return kernel.source == refused; };
  }

  std::string identity() const override { return name + " -O3"; }
  std::string version() const override { return name; }
  std::vector<Target> targets() const override { return known_targets(); }
  CompileResult compile(const CompileRequest& request) const override {
    ++count;
    if (compiles_) ++*compiles_;
    if (fault) fault(request.kernel);
    if (refuse && refuse(request.kernel)) return {std::nullopt, "error: refused\nmore lines", 1};
    Image image;
    image.kernel = request.kernel;
    image.target = request.target;
    image.binary = code ? code(request.kernel) : std::vector<std::uint8_t>{1, 2, 3};
    image.compile_ms = 1;
    return {std::move(image), "", 1};
  }

  std::string name = "fake 1.0";
  mutable std::atomic<int> count{0};
  std::function<bool(const KernelSpec&)> refuse;
  std::function<void(const KernelSpec&)> fault;  ///< may throw
  std::function<std::vector<std::uint8_t>(const KernelSpec&)> code;

 private:
  std::atomic<int>* compiles_;
};

}  // namespace tilewise
