#pragma once
// A step's arguments, by the names in the kernel's struct.
#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary/plan.hpp"

namespace tilewise::test {

using ArgumentNames = std::vector<std::string_view>;

/// MultiplyArgs of templates/parts/arguments.cuh, followed by the arguments that a family appends.
inline ArgumentNames multiply_arguments(std::initializer_list<std::string_view> appended = {}) {
  ArgumentNames names{"a",
                      "b",
                      "c",
                      "alpha_device",
                      "beta_device",
                      "lda",
                      "ldb",
                      "ldc",
                      "stride_a",
                      "stride_b",
                      "stride_c",
                      "m",
                      "n",
                      "k",
                      "part_tiles",
                      "splits",
                      "tiles_m",
                      "tiles_n",
                      "group_m",
                      "by_tiles_of_product",
                      "by_tiles_of_product shift",
                      "by_tiles",
                      "by_tiles shift",
                      "by_tiles_of_group",
                      "by_tiles_of_group shift",
                      "by_group_m",
                      "by_group_m shift",
                      "by_last_group_m",
                      "by_last_group_m shift",
                      "alpha",
                      "beta"};
  names.insert(names.end(), appended);
  return names;
}
/// SimtArgs and WgmmaArgs with STREAM_K (templates/families/*/main_loop.cuh).
inline ArgumentNames multiply_stream_k_arguments() {
  return multiply_arguments({"partial", "depth", "whole_tiles", "share"});
}
/// StreamKArgs of templates/plan/stream_k.cu.
inline ArgumentNames stream_k_arguments() {
  return {"partial", "c",       "alpha_device", "beta_device", "ldc",   "m",   "n",
          "depth",   "group_m", "whole_tiles",  "share",       "alpha", "beta"};
}
/// One operand of PackArgs, and both (templates/plan/pack.cu).
inline ArgumentNames pack_arguments() {
  return {"from",      "to",   "from_ld", "to_ld",  "from_stride",
          "to_stride", "rows", "columns", "to_rows"};
}

inline std::size_t index_of(std::string_view name, const ArgumentNames& names) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) throw std::logic_error("no argument " + std::string(name));
  return static_cast<std::size_t>(at - names.begin());
}
inline const Argument& argument_named(const LaunchStep& step, std::string_view name,
                                      const ArgumentNames& names = multiply_arguments()) {
  return step.arguments.at(index_of(name, names));
}
/// An argument of the second operand of a step that packs both.
inline const Argument& second_named(const LaunchStep& pack, std::string_view name) {
  return pack.arguments.at(pack_arguments().size() + index_of(name, pack_arguments()));
}

}  // namespace tilewise::test
