#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vocabulary/image.hpp"

namespace tilewise {

/// What a compiler is given: plain text, so that this room needs no other.
struct CompileRequest {
  KernelSpec kernel;
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;  ///< include name, text
  Target target;
};

/// image present: compiled. Absent: refused, and `log` says why. A refused source is data.
struct CompileResult {
  std::optional<Image> image;  ///< source_hash and launch_revision are the caller's to fill
  std::string log;
  double milliseconds = 0;
};

/// Target -> image. Needs no device. compile() is safe to call from several threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// "NVRTC 13.0 -std=c++17 ...": version and options, part of the source hash.
  virtual std::string identity() const = 0;
  /// "NVRTC 13.0".
  virtual std::string version() const = 0;
  /// Throws Error(unsupported) for a target it cannot compile for, naming those it can.
  virtual CompileResult compile(const CompileRequest& request) const = 0;
  virtual std::vector<Target> targets() const = 0;
};

}  // namespace tilewise
