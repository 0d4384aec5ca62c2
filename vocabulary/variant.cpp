#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {
namespace {

constexpr std::string_view kOrder = "order ", kBetween = "; ", kEpilogue = "epilogue ";

}  // namespace

std::string variant_text(const Problem& problem) {
  std::string text;
  if (problem.order) text = std::string(kOrder) + order_text(problem);
  if (problem.order && problem.epilogue) text += kBetween;
  if (problem.epilogue) text += std::string(kEpilogue) + epilogue_text(problem);
  return text;
}

void set_variant(Problem& problem, std::string_view variant) {
  problem.epilogue = nullptr;
  problem.order = nullptr;
  std::string_view rest = variant;
  if (rest.starts_with(kOrder)) {
    const std::size_t end = rest.find(kBetween);
    // A stored problem has an explicit order.
    problem.order = interned(parse_sum_order(rest.substr(kOrder.size(), end - kOrder.size())));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + kBetween.size());
  }
  if (rest.starts_with(kEpilogue)) {
    problem.epilogue = interned(rest.substr(kEpilogue.size()));
    rest = {};
  }
  if (!rest.empty())
    throw Error(ErrorKind::invalid_argument,
                "a problem of the variant \"" + std::string(variant) + "\"");
}

}  // namespace tilewise
