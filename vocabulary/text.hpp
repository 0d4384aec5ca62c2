#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Texts of several parts.
namespace tilewise {

/// Text as it is; of other values to_string().
struct AsText {
  template <class T>
  std::string operator()(const T& value) const {
    using std::to_string;
    if constexpr (std::convertible_to<T, std::string_view>)
      return std::string(std::string_view(value));
    else
      return std::string(to_string(value));
  }
};

/// The items with `separator` between them; `text_of` makes text of one.
template <class Items, class TextOf = AsText>
std::string join(const Items& items, std::string_view separator = ", ", TextOf text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& item : items) {
    if (!is_first) text += separator;
    is_first = false;
    text += std::invoke(text_of, item);
  }
  return text;
}

/// Adds `part` to a list, behind `separator` unless it is the first.
inline void append(std::string& list, std::string_view part, std::string_view separator = ", ") {
  if (!list.empty()) list += separator;
  list += part;
}

/// "1 problem", "2 problems".
std::string counted(std::int64_t count, std::string_view noun);

/// Without blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);
/// The parts between blanks.
std::vector<std::string> words_of(const std::string& text);
/// ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// The value of an environment variable; empty without one.
std::string environment_variable(const char* name);

}  // namespace tilewise
