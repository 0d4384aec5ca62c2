#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/problem.hpp"

/// Problems and kinds of products (types and math mode) as text for people and for command lines.
namespace tilewise {

/// "f32", "f16 to f32", "f32 by tf32", "bf16 x i8": without defaults.
std::string kind_text(const Problem& problem);
/// "nn 1024x1024x1024", "nn 64x64x64 bf16 batch 100": a problem in a table.
std::string table_text(const Problem& problem);
/// "16,4,16".
std::string alignment_text(const Alignment& alignment);

/// A kind in one word: A's type, or the math mode unless it is strict, B's type unless it is A's,
/// and C's type unless it is the default: "f32", "tf32", "f32x3", "bf16", "bf16:f32", "bf16xi8".
std::string kind_name(const ProductKind& kind);
/// Throws Error(unsupported) for types without a product_kind().
std::string kind_name(const Problem& problem);
/// The kind of this name. Throws Error(invalid_argument) with the list of kinds.
const ProductKind& parse_kind(std::string_view name);

/// All options of `autotune` for a problem: "--sizes 1024x512x2048 --layout nn --align 16,16,16".
std::string problem_options(const Problem& problem);
/// The words of these options, as a shell passes them to a program.
std::vector<std::string> option_words(const std::string& options);
/// The same without defaults, after a space: " --sizes 64x64x64 --dtype f16".
std::string tune_options(const Problem& problem);

}  // namespace tilewise
