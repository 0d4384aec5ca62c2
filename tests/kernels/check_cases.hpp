#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/kernels/mutation.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::check {

#if defined(TILEWISE_CHECK_ADDRESS)
inline constexpr std::string_view kMode = "AddressSanitizer";
inline constexpr std::size_t kCases = 16;
inline constexpr const char* kFlags =
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,bounds,alignment "
    "-fno-sanitize-recover=all";
#elif defined(TILEWISE_CHECK_THREADS)
inline constexpr std::string_view kMode = "ThreadSanitizer";
inline constexpr std::size_t kCases = 14;
inline constexpr const char* kFlags = "-O1 -g1 -fsanitize=thread";
#else
inline constexpr std::string_view kMode = "plain";
inline constexpr std::size_t kCases = 44;
inline constexpr const char* kFlags = "-O1";
#endif

struct Options {
  std::size_t cases = kCases;
  bool cases_given = false;
  bool every_order = false;  ///< run each shape in every thread order instead of one
  std::uint64_t seed = 1;
  unsigned jobs = 0;       ///< concurrent processes; 0: one per core
  unsigned longest = 120;  ///< CPU seconds after which a process without a new product is killed
  std::string device = "host:sm_90a";
  std::string only_template, only;
  // For `only`:
  std::vector<Layout> layouts;
  const ProductKind* kind = nullptr;  ///< null: strict f32
  std::int64_t batch = 1;
  std::string grouped;   ///< grouping_text() of --only
  std::string order;     ///< of --only; empty: any
  std::string epilogue;  ///< of every case; empty: those below, of some
  std::vector<Mutation> mutations;
};

/// Parses the command line and TILEWISE_FULL. Exits with status 2 for bad usage, such as a mistake
/// that cannot be planted.
Options parse_options(int argc, char** argv);
[[noreturn]] void bad_usage(const std::string& what);

struct Case {
  Candidate candidate;
  Problem typical;  ///< its sizes count only for specialised kernels
  std::string name() const;
};

/// A template of the catalog or one of the checkers' own.
const KernelTemplate& checked_template(std::string_view name);

/// A pairwise spread over all templates, kinds of products, layouts, alignments, batches and
/// parameter values.
std::vector<Case> cases_for(const Options& options, const DeviceInfo& device);

/// Operands of all kinds, whose numbers stay whole.
inline constexpr const char* kEpilogue =
    "x = acc * s + bias[j]; aux[i,j] = x; sums[j] = sum(x); relu(x) - by_row[i] + residual[i,j]";

/// The same without sums over rows, which grouped products have not.
inline constexpr const char* kGroupedEpilogue =
    "x = acc * s + bias[j]; aux[i,j] = x; relu(x) - by_row[i] + residual[i,j]";

/// Every function, most of them of a 0 or a 1, so that numbers stay whole.
inline constexpr const char* kEveryFunction =
    "x = acc + bias[j]; z = x - x; y = exp(z); p = sigmoid(z); "
    "relu(min(max(x, -1000), clamp(x, -900, 900))) * y + abs(x) * rsqrt(y) + sqrt(z) + log(y) + "
    "tanh(z) + erf(z) + p + p + silu(z) + gelu(z) + gelu_tanh(z) + where(x > 0, x / y, -x)";

/// A kernel's source with the planted mistakes.
KernelSource source_of(const KernelSpec& kernel, const Options& options);

}  // namespace tilewise::check
