#include "vocabulary/renames.hpp"

#include <array>
#include <string_view>

namespace tilewise {
namespace {

struct Rename {
  std::string_view kernel_template, before, now;
};

constexpr std::array kParameters{
    Rename{"mma", "BAKE", "SPECIALIZE_SIZE"},  Rename{"mma", "RASTER", "GROUP_M"},
    Rename{"mma", "SKIP", "SKIP_EDGE_WARPS"},  Rename{"simt", "BAKE", "SPECIALIZE_SIZE"},
    Rename{"simt", "RASTER", "GROUP_M"},       Rename{"simt", "TAIL", "STREAM_K"},
    Rename{"skinny", "STREAM", "EVICT_FIRST"}, Rename{"skinny", "SWAP", "SMALL_OPERAND"},
    Rename{"small", "DEPTH", "FRAGMENT_K"},    Rename{"small", "PARTS", "SPLIT_M"},
};

// A kernel's constants that are no parameters.
constexpr std::array kConstants{
    Rename{"mma", "BAKED_M", "SIZE_M"},
    Rename{"mma", "BAKED_N", "SIZE_N"},
    Rename{"mma", "BAKED_K", "SIZE_K"},
    Rename{"mma", "BAKED_SPLITS", "SPLITS"},
    Rename{"mma", "BAKED_RASTER", "TILE_ROWS_TOGETHER"},
    Rename{"simt", "BAKED_M", "SIZE_M"},
    Rename{"simt", "BAKED_N", "SIZE_N"},
    Rename{"simt", "BAKED_K", "SIZE_K"},
    Rename{"simt", "BAKED_SPLITS", "SPLITS"},
    Rename{"simt", "BAKED_RASTER", "TILE_ROWS_TOGETHER"},
};

template <class Renames>
std::string_view name_now(const Renames& renames, std::string_view kernel_template,
                          std::string_view name) {
  for (const Rename& rename : renames)
    if (rename.kernel_template == kernel_template && rename.before == name) return rename.now;
  return name;
}

}  // namespace

Candidate renamed(Candidate candidate) {
  Configuration now;
  for (const auto& [name, value] : candidate.configuration.values())
    now.set(name_now(kParameters, candidate.kernel_template, name), value);
  candidate.configuration = std::move(now);
  return candidate;
}

KernelSpec renamed(KernelSpec kernel) {
  // A kernel's entry has the name of its template.
  const std::string_view kernel_template = kernel.entry;
  decltype(kernel.defines) now;
  for (const auto& [name, value] : kernel.defines) {
    const std::string_view parameter = name_now(kParameters, kernel_template, name);
    now.emplace(std::string(name_now(kConstants, kernel_template, parameter)), value);
  }
  kernel.defines = std::move(now);
  return kernel;
}

}  // namespace tilewise
