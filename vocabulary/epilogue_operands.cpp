#include <algorithm>
#include <array>
#include <string>

#include "tilewise/dtype.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {

std::string index_text(const EpilogueSlot& operand) {
  constexpr std::array<std::string_view, 8> texts{"",  "[i]", "[j]",   "[i,j]",
                                                  "i", "j",   "j/128", "j"};
  const std::string text(texts.at(static_cast<std::size_t>(operand.over)));
  if (!is_of_blocks(operand.over)) return text;
  const std::string block = "k/" + std::to_string(operand.steps);
  return "[" + (operand.k_first ? block + "," + text : text + "," + block) + "]";
}

bool has_scales(const EpilogueForm& epilogue) {
  return std::any_of(epilogue.operands.begin(), epilogue.operands.end(),
                     [](const EpilogueSlot& operand) { return is_of_blocks(operand.over); });
}

namespace {

template <class Is>
const EpilogueSlot* first_operand(const Problem& problem, const Is& is) {
  if (!problem.epilogue) return nullptr;
  const std::vector<EpilogueSlot>& operands = problem.epilogue->operands;
  const auto found = std::find_if(operands.begin(), operands.end(), is);
  return found == operands.end() ? nullptr : &*found;
}

}  // namespace

const EpilogueSlot* scales_of(const Problem& problem) {
  return first_operand(problem, [](const EpilogueSlot& x) { return is_scale(x.over); });
}

const EpilogueSlot* zero_points_of(const Problem& problem) {
  return first_operand(problem,
                       [](const EpilogueSlot& x) { return x.over == EpilogueOver::zero_points; });
}

std::string unsupported_scales(const Problem& problem) {
  if (!has_scales(problem)) return "";
  const std::string text = "the epilogue \"" + to_string(*problem.epilogue) + "\"";
  const EpilogueSlot* zeros = zero_points_of(problem);
  if (zeros && (problem.a.type == problem.b.type || !is_integer(problem.b.type)))
    return text +
           " has zero points: allowed for a B of i4 or i8 beside an A of f16 or bf16, not for " +
           std::string(to_string(problem.b.type)) + " beside " +
           std::string(to_string(problem.a.type));
  if (zeros && type_of(*zeros, problem.c.type) != DType::i8)
    return text + " has zero points of " + std::string(to_string(type_of(*zeros, problem.c.type))) +
           ": allowed is i8";
  if (zeros && zeros->steps != scales_of(problem)->steps)
    return text + " has zero points of " + std::to_string(zeros->steps) +
           " steps of k: allowed are those of its scales, " +
           std::to_string(scales_of(problem)->steps);
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
    case EpilogueOver::zero_points:
      return scales(n);
    case EpilogueOver::tiles:
      return scales(ceil_div(n, kScaledSteps));
  }
  return {};
}

}  // namespace tilewise
