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
inline constexpr std::size_t kCases = 140;
inline constexpr const char* kFlags =
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,bounds,alignment "
    "-fno-sanitize-recover=all";
#elif defined(TILEWISE_CHECK_THREADS)
inline constexpr std::string_view kMode = "ThreadSanitizer";
inline constexpr std::size_t kCases = 48;
inline constexpr const char* kFlags = "-O1 -g1 -fsanitize=thread";
#else
inline constexpr std::string_view kMode = "plain";
inline constexpr std::size_t kCases = 450;
inline constexpr const char* kFlags = "-O1";
#endif

struct Options {
  std::size_t cases = kCases;
  std::uint64_t seed = 1;
  unsigned jobs = 0;       ///< processes at a time; 0: one for each core
  unsigned longest = 120;  ///< seconds for one case
  std::string device = "host:sm_90a";
  std::string only_template, only;
  // Of `only`:
  std::vector<Layout> layouts;
  const ProductKind* kind = nullptr;  ///< null: strict f32
  std::int64_t batch = 1;
  std::vector<Mutation> mutations;
};

/// Command line and TILEWISE_FULL; ends the program with status 2 when there is no sense in it,
/// such as a mistake that cannot be planted.
Options parse_options(int argc, char** argv);
[[noreturn]] void bad_usage(const std::string& what);

struct Case {
  Candidate candidate;
  Problem typical;  ///< all but its sizes count
  std::string name() const;
};

/// The catalog's templates and the checkers' own.
const KernelTemplate& checked_template(std::string_view name);

/// Spread pairwise over all templates, kinds of products, layouts, alignments, batches and
/// parameter values.
std::vector<Case> cases_for(const Options& options, const DeviceInfo& device);

/// A kernel's source with the mistakes planted.
KernelSource source_of(const std::string& name, const Options& options);

}  // namespace tilewise::check
