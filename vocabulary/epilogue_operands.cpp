#include <algorithm>
#include <array>
#include <string>

#include "tilewise/dtype.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {

std::string index_text(const EpilogueSlot& operand) {
  constexpr std::array<std::string_view, 7> texts{"", "[i]", "[j]", "[i,j]", "i", "j", "j/128"};
  const std::string text(texts.at(static_cast<std::size_t>(operand.over)));
  if (!is_scale(operand.over)) return text;
  const std::string block = "k/" + std::to_string(operand.steps);
  return "[" + (operand.k_first ? block + "," + text : text + "," + block) + "]";
}

bool has_scales(const EpilogueForm& epilogue) {
  return std::any_of(epilogue.operands.begin(), epilogue.operands.end(),
                     [](const EpilogueSlot& operand) { return is_scale(operand.over); });
}

const EpilogueSlot* scales_of(const Problem& problem) {
  if (!problem.epilogue) return nullptr;
  const std::vector<EpilogueSlot>& operands = problem.epilogue->operands;
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [](const EpilogueSlot& x) { return is_scale(x.over); });
  return found == operands.end() ? nullptr : &*found;
}

std::string unsupported_scales(const Problem& problem) {
  if (!has_scales(problem)) return "";
  const std::string text = "the epilogue \"" + to_string(*problem.epilogue) + "\"";
  if (problem.a.type != problem.b.type) {
    for (const EpilogueSlot& operand : problem.epilogue->operands)
      if (operand.over == EpilogueOver::row_blocks || operand.over == EpilogueOver::tiles)
        return text + " scales blocks of k: allowed is acc(s[j,k/128]) of a B of fewer bits than A";
  } else if (const auto& all = problem.epilogue->operands;
             std::any_of(all.begin(), all.end(), [](const EpilogueSlot& operand) {
               return is_scale(operand.over) && operand.steps != kScaledSteps;
             })) {
    return text + " scales other blocks of k than 128 steps: allowed where B has fewer bits than A";
  } else if (!is_fp8(problem.a.type) || problem.math != MathMode::strict)
    return text + " scales blocks of k: allowed for strict products of e4m3 or e5m2, not for " +
           std::string(to_string(problem.a.type)) + " by " + std::string(to_string(problem.math));
  if (problem.grouping == Grouping::depth)
    return text + " scales blocks of k: allowed where products have equal k, not in groups of " +
           "different k";
  return "";
}

EpilogueShape shape_of(const EpilogueSlot& operand, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  const std::int64_t blocks = ceil_div(k, operand.steps);
  const auto scales = [&](std::int64_t places) {
    return operand.k_first ? EpilogueShape{blocks, places} : EpilogueShape{places, blocks};
  };
  switch (operand.over) {
    case EpilogueOver::all:
      return {};
    case EpilogueOver::rows:
      return {1, m};
    case EpilogueOver::columns:
      return {1, n};
    case EpilogueOver::elements:
      return {m, n};
    case EpilogueOver::row_blocks:
      return scales(m);
    case EpilogueOver::column_blocks:
      return scales(n);
    case EpilogueOver::tiles:
      return scales(ceil_div(n, kScaledSteps));
  }
  return {};
}

}  // namespace tilewise
