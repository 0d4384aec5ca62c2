#include "templates/plan/pointwise.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using Op = EpilogueOp;

/// By EpilogueOp: the member of Functions (words/functions.cuh).
constexpr std::string_view kWords[] = {"",
                                       "",
                                       "",  // what is no function
                                       "negate",
                                       "add",
                                       "subtract",
                                       "multiply",
                                       "divide",
                                       "minimum",
                                       "maximum",
                                       "less",
                                       "less_or_equal",
                                       "equal",
                                       "not_equal",
                                       "where",
                                       "absolute",
                                       "square_root",
                                       "reciprocal_root",
                                       "exponential",
                                       "logarithm",
                                       "hyperbolic_tangent",
                                       "error_function",
                                       "sigmoid",
                                       "silu",
                                       "relu",
                                       "gelu",
                                       "gelu_tanh"};
static_assert(std::size(kWords) == static_cast<std::size_t>(Op::gelu_tanh) + 1);

/// As a hexadecimal literal, which is exact.
std::string literal(double value) {
  std::array<char, 40> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), std::abs(value),
                                  std::chars_format::hex)
                        .ptr;
  return "PointwiseNumber(" + std::string(std::signbit(value) ? "-0x" : "0x") +
         std::string(digits.data(), end) + ")";
}

std::string value_of(const EpilogueNode& node) {
  switch (node.op) {
    case Op::sum_of_products:
      return "acc";
    case Op::number:
      return literal(node.value);
    case Op::operand:
      return "values.p" + std::to_string(node.slot);
    default:
      return "F::" + std::string(kWords[static_cast<std::size_t>(node.op)]) + "(" +
             join(node.x, ", ", [](std::size_t x) { return "v" + std::to_string(x); }) + ")";
  }
}

std::string members(const EpilogueForm& epilogue, bool read) {
  std::string text;
  for (std::size_t slot = 0; slot < epilogue.operands.size(); ++slot)
    if ((epilogue.operands[slot].use == EpilogueUse::read) == read &&
        !is_of_blocks(epilogue.operands[slot].over))
      text += "  PointwiseNumber p" + std::to_string(slot) + ";\n";
  return text;
}

constexpr std::string_view kOver[] = {"OVER_ALL", "OVER_ROWS", "OVER_COLUMNS", "OVER_ELEMENTS"};

/// The types that read the scales of A and of B, and B's zero points (parts/pointwise.cuh).
std::string operands_of_blocks(const EpilogueForm& epilogue) {
  std::string of_a = "NoScale", of_b = "NoScale", zeros;
  for (std::size_t slot = 0; slot < epilogue.operands.size(); ++slot) {
    const EpilogueSlot& operand = epilogue.operands[slot];
    if (!is_of_blocks(operand.over)) continue;
    const bool is_a = operand.over == EpilogueOver::row_blocks,
               is_zero = operand.over == EpilogueOver::zero_points;
    const std::string type = is_zero        ? "TYPE_I8"
                             : operand.type ? std::to_string(static_cast<int>(*operand.type))
                                            : "kPointwiseType";
    (is_a ? of_a : (is_zero ? zeros : of_b)) =
        "BlockOperand<" + std::to_string(slot) + ", " +
        std::to_string(operand.over == EpilogueOver::tiles ? kScaledSteps : 1) + ", " +
        std::to_string(operand.steps) + ", " + (operand.k_first ? "true, " : "false, ") + type +
        ", " + (is_a ? "true" : "false") + ">";
  }
  return "#define SCALES 1\ntypedef " + of_a + " ScaleOfA;\ntypedef " + of_b + " ScaleOfB;\n" +
         (zeros.empty() ? "" : "#define ZERO_POINTS 1\ntypedef " + zeros + " ZeroOfB;\n");
}

}  // namespace

std::string pointwise_source(const EpilogueForm& epilogue) {
  std::string text = "// " + to_string(epilogue) + "\nstruct PointwiseValues {\n" +
                     members(epilogue, true) + "};\nstruct PointwiseResults {\n" +
                     members(epilogue, false) + "};\n" +
                     "DEVICE PointwiseNumber pointwise([[maybe_unused]] PointwiseNumber acc, "
                     "[[maybe_unused]] const PointwiseValues& values,\n"
                     "                                 [[maybe_unused]] PointwiseResults& results) "
                     "{\n  typedef Functions<PointwiseNumber> F;\n";
  const auto is_of_products = [&](const EpilogueNode& node) {
    return node.op == Op::operand && is_of_blocks(epilogue.operands[node.slot].over);
  };
  for (std::size_t n = 0; n < epilogue.nodes.size(); ++n)
    if (!is_of_products(epilogue.nodes[n]))
      text += "  const auto v" + std::to_string(n) + " = " + value_of(epilogue.nodes[n]) + ";\n";
  for (std::size_t slot = 0; slot < epilogue.operands.size(); ++slot)
    if (epilogue.operands[slot].use != EpilogueUse::read)
      text += "  results.p" + std::to_string(slot) + " = v" +
              std::to_string(epilogue.operands[slot].node) + ";\n";
  return text + "  return v" + std::to_string(epilogue.c) + ";\n}\n";
}

std::string pointwise_header(const EpilogueForm& epilogue) {
  std::string reads, writes;
  int matrices = 0;
  for (std::size_t slot = 0; slot < epilogue.operands.size(); ++slot) {
    const EpilogueSlot& operand = epilogue.operands[slot];
    if (is_of_blocks(operand.over)) continue;
    const auto over = [&](EpilogueOver of) { return std::string(kOver[static_cast<int>(of)]); };
    const std::string number = std::to_string(slot), of = "args.of[" + number + "]";
    const std::string type = operand.type ? std::to_string(static_cast<int>(*operand.type))
                             : operand.over == EpilogueOver::all ? "kPointwiseType"
                                                                 : "RESULT";
    if (operand.use == EpilogueUse::read) {
      reads += "  each(ReadOperand<" + number + ", " + over(operand.over) + ", " + type +
               ", &PointwiseValues::p" + number + ">());\n";
      matrices += operand.over == EpilogueOver::elements;
    } else {
      const bool summed = operand.use == EpilogueUse::summed;
      writes += "  " + of + ".write<" + (summed ? "kPointwiseType" : type) + ">(" + of + ".at<" +
                over(summed ? EpilogueOver::elements : operand.over) + ">(at), results.p" + number +
                ");\n";
    }
  }
  return pointwise_source(epilogue) + "typedef PointwiseArgsOf<" +
         std::to_string(std::max<std::size_t>(1, epilogue.operands.size())) +
         "> PointwiseArgs;\nconstexpr int kPointwiseMatrices = " + std::to_string(matrices) +
         ";  // that are read\n// Calls each(ReadOperand<>()) for all that are read.\n"
         "template <class Each>\nDEVICE void for_read([[maybe_unused]] const Each& each) {\n" +
         reads +
         "}\nDEVICE void pointwise_write([[maybe_unused]] const PointwiseArgs& args, "
         "[[maybe_unused]] const Place& at,\n"
         "                            [[maybe_unused]] const PointwiseResults& results) {\n" +
         writes + "}\n" + (has_scales(epilogue) ? operands_of_blocks(epilogue) : "");
}

}  // namespace tilewise
