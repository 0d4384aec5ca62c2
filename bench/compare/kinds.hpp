#pragma once
#include <string>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/problem_text.hpp"

/// Lists of kinds of products, named by kind_name().
namespace tilewise::bench {

/// Parses "f32,tf32,bf16:f32": the kinds in this order, without duplicates. "all": every operand
/// type and mode with its default result. Throws Error(invalid_argument), which lists the kinds.
std::vector<const ProductKind*> parse_kinds(const std::string& text);

/// The problems with these types, aligned like tightly packed matrices of them.
std::vector<Problem> of_kind(std::vector<Problem> problems, const ProductKind& kind);

/// "TFLOP/s", or "TOP/s" for integers.
std::string rate_unit(const ProductKind& kind);

/// Each problem with each of these epilogues; without any the problems themselves. Throws
/// Error(invalid_argument).
std::vector<Problem> with_epilogues(const std::vector<Problem>& problems,
                                    const std::vector<std::string>& epilogues);

}  // namespace tilewise::bench
