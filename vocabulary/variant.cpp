#include <optional>

#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {
namespace {

constexpr std::string_view kOrder = "order ", kBetween = "; ", kGroups = "grouped ",
                           kEpilogue = "epilogue ";

/// Takes a part that begins with this word from the text; none where it begins otherwise.
std::optional<std::string_view> taken(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return std::nullopt;
  const std::size_t end = text.find(kBetween);
  const std::string_view part = text.substr(word.size(), end - word.size());
  text.remove_prefix(end == text.npos ? text.size() : end + kBetween.size());
  return part;
}

}  // namespace

std::string variant_text(const Problem& problem) {
  std::string text;
  const auto add = [&](std::string_view word, const std::string& part) {
    if (!text.empty()) text += kBetween;
    text += std::string(word) + part;
  };
  if (problem.order) add(kOrder, order_text(problem));
  if (is_grouped(problem)) add(kGroups, grouping_text(problem));
  if (problem.epilogue) add(kEpilogue, epilogue_text(problem));
  return text;
}

void set_variant(Problem& problem, std::string_view variant) {
  problem.epilogue = nullptr;
  problem.order = nullptr;
  std::string_view rest = variant;
  // A stored problem has an explicit order.
  if (const auto order = taken(rest, kOrder)) problem.order = interned(parse_sum_order(*order));
  set_grouping(problem, taken(rest, kGroups).value_or(""));
  if (rest.starts_with(kEpilogue)) {
    problem.epilogue = interned(rest.substr(kEpilogue.size()));
    rest = {};
  }
  if (!rest.empty())
    throw Error(ErrorKind::invalid_argument,
                "a problem of the variant \"" + std::string(variant) + "\"");
}

}  // namespace tilewise
