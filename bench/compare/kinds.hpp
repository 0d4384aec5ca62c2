#pragma once
#include <string>
#include <vector>

#include "tilewise/problem.hpp"

/// Kinds of products by short names, as a command line lists them.
namespace tilewise::bench {

/// The operand's type, or the math mode where it is not strict, and C's type where it is not the
/// default: "f32", "tf32", "f32x3", "bf16", "bf16:f32", "e4m3:f16".
std::string kind_name(const ProductKind& kind);
/// Of a problem. Throws Error(unsupported) for types that nothing computes.
std::string kind_name(const Problem& problem);

/// "f32,tf32,bf16:f32", in its order, each once; "all": every operand type and mode with its
/// default result. Throws Error(invalid_argument) naming the kinds there are.
std::vector<const ProductKind*> parse_kinds(const std::string& text);

/// The problems with these types, aligned as tightly packed matrices of them are.
std::vector<Problem> of_kind(std::vector<Problem> problems, const ProductKind& kind);

/// "TFLOP/s", or "TOP/s" of integers.
std::string rate_unit(const ProductKind& kind);

}  // namespace tilewise::bench
