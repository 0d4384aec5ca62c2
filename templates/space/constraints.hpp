#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// A parameter that a partial configuration lacks counts as 1: no constraint that is asked reads
/// it.
inline int value_or_1(const Configuration& c, std::string_view name) {
  const int* found = c.find(name);
  return found ? *found : 1;
}

/// Whether a multiprocessor holds so many blocks of whole warps that use this much, counted as
/// occupancy_of() does: in units of shared memory and of registers a warp. What is left 0 takes
/// nothing.
struct BlockUsage {
  int threads = 32;
  std::int64_t shared_bytes = 0;
  int registers = 0;  ///< a thread
};
inline bool blocks_fit(int blocks, const BlockUsage& block, const DeviceInfo& device) {
  LaunchStep step;
  step.block.x = static_cast<std::uint32_t>(block.threads);
  step.shared_bytes = static_cast<std::uint32_t>(block.shared_bytes);
  ResourceUsage usage;
  usage.registers = block.registers;
  return occupancy_of(step, usage, device).blocks >= blocks;
}

/// Constraints over a template's configuration as plain numbers: `Numbers` is made of a problem and
/// a configuration. While a partial configuration is looked at, the parameters a constraint does
/// not read may be anything.
template <class Numbers>
struct ConstraintsOver {
  using Test = std::function<bool(const Numbers&, const ConstraintInput&)>;

  static Constraint constraint(std::string name, std::vector<std::string> reads, std::string text,
                               Test test) {
    return {std::move(name), std::move(reads), std::move(text),
            [test = std::move(test)](const ConstraintInput& in) {
              return test(Numbers(in.problem, in.configuration), in);
            }};
  }
  /// About speed only.
  static Constraint hint(std::string name, std::vector<std::string> reads, std::string text,
                         Test test) {
    Constraint made =
        constraint(std::move(name), std::move(reads), std::move(text), std::move(test));
    made.for_search_only = true;
    return made;
  }
};

}  // namespace tilewise
