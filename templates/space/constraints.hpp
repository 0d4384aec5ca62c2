#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"
#include "vocabulary/image.hpp"

namespace tilewise {

/// The parameter's value; 1 where a partial configuration lacks it. Constraints that read it are
/// not evaluated then.
inline int value_or_1(const Configuration& c, std::string_view name) {
  const int* found = c.find(name);
  return found ? *found : 1;
}

/// The resources of a block. A resource that is 0 sets no limit.
struct BlockUsage {
  int threads = 32;
  std::int64_t shared_bytes = 0;
  int registers = 0;  ///< a thread
};
/// Whether a multiprocessor has room for `blocks` such blocks, by occupancy_of().
inline bool blocks_fit(int blocks, const BlockUsage& block, const DeviceInfo& device) {
  LaunchStep step;
  step.block.x = static_cast<std::uint32_t>(block.threads);
  step.shared_bytes = static_cast<std::uint32_t>(block.shared_bytes);
  ResourceUsage usage;
  usage.registers = block.registers;
  return occupancy_of(step, usage, device).blocks >= blocks;
}

/// Constraints over a template's configuration as plain numbers: `Numbers` is constructed from a
/// problem and a configuration. In a partial configuration, values derived from parameters that a
/// constraint does not read are meaningless.
template <class Numbers>
struct ConstraintsOver {
  using Test = std::function<bool(const Numbers&, const ConstraintInput&)>;

  static Constraint constraint(std::string name, std::vector<std::string> reads, std::string text,
                               Test test) {
    return {std::move(name), std::move(reads), std::move(text),
            [test = std::move(test)](const ConstraintInput& in) {
              if (!in.numbers) return test(Numbers(in.problem, in.configuration), in);
              const Numbers* known = std::any_cast<Numbers>(in.numbers);
              if (!known) known = &in.numbers->emplace<Numbers>(in.problem, in.configuration);
              return test(*known, in);
            }};
  }
  /// A constraint that concerns speed only (for_search_only).
  static Constraint hint(std::string name, std::vector<std::string> reads, std::string text,
                         Test test) {
    Constraint made =
        constraint(std::move(name), std::move(reads), std::move(text), std::move(test));
    made.for_search_only = true;
    return made;
  }
  /// A hint that says where the work of parameters is needed (Constraint::of_work).
  static Constraint work_hint(std::string name, std::vector<std::string> reads, std::string text,
                              Test test, std::vector<std::string> of_work) {
    Constraint made = hint(std::move(name), std::move(reads), std::move(text), std::move(test));
    made.of_work = std::move(of_work);
    return made;
  }
};

}  // namespace tilewise
