#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewise::check {

/// A mistake to plant in the one line of the kernel sources that has a marker (markers.hpp). The
/// line's comments and all line numbers are preserved.
struct Mutation {
  std::string marker;
  std::optional<std::string> from;  ///< a part of the line that occurs once; none: the whole code
  std::string to;  ///< the replacement; without `from`, "{line}" stands for the line's code
};

/// Plants the mistake if the text has its marker. Throws Error(invalid_argument) if `from` does not
/// occur exactly once in the line, or if `to` has more than one line.
void plant(const Mutation& mutation, std::string& text);

/// Throws Error(invalid_argument) unless exactly one line of the sources (file name and text) has
/// the mistake's marker, and as plant() does.
void expect_plantable(const Mutation& mutation,
                      const std::vector<std::pair<std::string, std::string>>& sources);

}  // namespace tilewise::check
