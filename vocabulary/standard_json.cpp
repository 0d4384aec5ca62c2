#include "vocabulary/standard_json.hpp"

namespace tilewise {
namespace {

constexpr std::string_view kNoNumbers[] = {"NaN", "Infinity", "-Infinity"};

/// The non-number word at the beginning of the text; empty without one.
std::string_view no_number_at(std::string_view text) {
  for (const std::string_view word : kNoNumbers)
    if (text.starts_with(word)) return word;
  return {};
}

}  // namespace

std::string standard_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::string standard;
  standard.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view word = in_string ? std::string_view() : no_number_at(text.substr(i));
    if (!word.empty()) {
      standard.append("\"").append(word).append("\"");
      i += word.size() - 1;
      continue;
    }
    standard += text[i];
    if (text[i] == '"') in_string = !in_string;
    // An escaped character does not end the string.
    if (in_string && text[i] == '\\' && i + 1 < text.size()) standard += text[++i];
  }
  return standard;
}

}  // namespace tilewise
