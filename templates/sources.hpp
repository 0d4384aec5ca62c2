#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vocabulary/hash.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// A kernel's source text with the headers it includes (name, text), ready for a compiler. Built
/// into the program from templates/*.cu and *.cuh at build time.
struct KernelSource {
  std::string name;
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Throws Error(not_found) for a name that is not built in.
const KernelSource& kernel_source(std::string_view name);

/// The same, with the header pointwise_source.cuh for a kernel with an epilogue. Throws Error also
/// for a bad epilogue.
KernelSource kernel_source(const KernelSpec& kernel);

/// Adds a source that is not built in (tests, experiments). Throws Error(invalid_argument) when the
/// name is taken. Not safe beside concurrent lookups.
void add_kernel_source(KernelSource source);

/// The file names of all sources.
std::vector<std::string> kernel_source_names();

/// Whether a source includes the header of this name, directly or through others.
bool includes(const KernelSource& source, std::string_view header);

/// A kernel as one text without includes: its constants as macros, and each header in the place
/// where it is first included. A compiler makes the same code of it.
std::string text_in_one_file(const KernelSpec& kernel);

/// Hash of a source's text and its includes, without comments and blank space.
std::string kernel_text_hash(std::string_view name);

/// Hash (XXH3-128, hex) of a kernel's source and its includes, without comments and blank space,
/// its defines and epilogue, and `compiler` (the compiler's version and options). Measurements and
/// compiled images are reused only where it is the same.
std::string source_hash(const KernelSpec& kernel, std::string_view compiler);

}  // namespace tilewise
