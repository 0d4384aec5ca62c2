#pragma once
#include <string>
#include <string_view>

namespace tilewise {

/// Converts JSON from Python to standard JSON: removes a byte order mark, and turns NaN, Infinity
/// and -Infinity into strings of these names, which a reader of numbers recognises as no numbers.
/// Other invalid text is unchanged. Thread-safe.
std::string standard_json(std::string_view text);

}  // namespace tilewise
