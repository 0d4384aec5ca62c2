#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewise::check {

/// A mistake to be planted in the one line of the kernel sources that has a marker (markers.hpp).
/// Comments of the line stay, and so do line numbers.
struct Mutation {
  std::string marker;
  std::optional<std::string>
      from;        ///< a part of the line, which occurs once; none: all of its code
  std::string to;  ///< what replaces it; without `from`, "{line}" in it stands for the line's code
};

/// Plants the mistake if the text has its marker. Throws Error(invalid_argument) when `from` does
/// not occur exactly once in the line, and for more than one line in `to`.
void plant(const Mutation& mutation, std::string& text);

/// Throws Error(invalid_argument) when exactly one line of the sources (file name and text) does
/// not have the mistake's marker, and where plant() throws.
void expect_plantable(const Mutation& mutation,
                      const std::vector<std::pair<std::string, std::string>>& sources);

}  // namespace tilewise::check
