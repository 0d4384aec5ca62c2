#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"

namespace tilewise {

/// A parameter that a partial configuration lacks counts as 1: no constraint that is asked reads
/// it.
inline int value_or_1(const Configuration& c, std::string_view name) {
  const int* found = c.find(name);
  return found ? *found : 1;
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
