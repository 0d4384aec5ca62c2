#pragma once
#include <string>
#include <string_view>

namespace tilewise {

/// JSON as Python writes it, as standard JSON: without a byte order mark; NaN, Infinity and
/// -Infinity become texts of these names, so that a reader of numbers sees that there is none.
/// What else is no JSON stays as it is. Thread-safe.
std::string standard_json(std::string_view text);

}  // namespace tilewise
