#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// A compiler's input: plain text, without types of other folders.
struct CompileRequest {
  KernelSpec kernel;
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;  ///< include name, text
  Target target;
};

/// With `image`: compiled. Without: the source was refused, and `log` has the reason.
struct CompileResult {
  std::optional<Image> image;  ///< the caller fills in source_hash and launch_revision
  std::string log;
  double milliseconds = 0;
};

/// Source text -> image for a target. Needs no device. compile() is thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// "NVRTC 13.0 -std=c++17 ...": version and options, part of the source hash.
  virtual std::string identity() const = 0;
  /// "NVRTC 13.0".
  virtual std::string version() const = 0;
  /// Throws Error(unsupported) for a target outside targets(), with the list of targets().
  virtual CompileResult compile(const CompileRequest& request) const = 0;
  virtual std::vector<Target> targets() const = 0;
  /// The PTX from which the machine code of compile() is assembled. Throws Error(unsupported) for a
  /// compiler without PTX, Error(compiler) with the log if the source is refused.
  virtual std::string ptx(const CompileRequest& request) const {
    throw Error(ErrorKind::unsupported,
                "there is no PTX for " + to_string(request.target) + ", whose compiler makes none");
  }
};

}  // namespace tilewise
