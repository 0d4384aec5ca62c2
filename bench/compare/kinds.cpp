#include "bench/compare/kinds.hpp"

#include <algorithm>
#include <sstream>

namespace tilewise::bench {
namespace {

/// Those of "all": cuBLAS has no product of two types.
bool is_usual(const ProductKind& kind) {
  return kind.a == kind.b && kind.c == default_result(kind.a);
}

}  // namespace

std::vector<const ProductKind*> parse_kinds(const std::string& text) {
  std::vector<const ProductKind*> kinds;
  if (text == "all") {
    for (const ProductKind& kind : product_kinds())
      if (is_usual(kind)) kinds.push_back(&kind);
    return kinds;
  }
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const ProductKind* kind = &parse_kind(item);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (kinds.empty()) parse_kind(text);
  return kinds;
}

std::vector<Problem> of_kind(std::vector<Problem> problems, const ProductKind& kind) {
  for (Problem& problem : problems) {
    set_types(problem, kind);
    set_alignment(problem, natural_alignment(problem));
  }
  return problems;
}

std::string rate_unit(const ProductKind& kind) { return is_integer(kind.a) ? "TOP/s" : "TFLOP/s"; }

std::vector<Problem> with_epilogues(const std::vector<Problem>& problems,
                                    const std::vector<std::string>& epilogues) {
  if (epilogues.empty()) return problems;
  std::vector<Problem> made;
  for (const Problem& problem : problems)
    for (const std::string& text : epilogues)
      set_epilogue(made.emplace_back(problem), Epilogue(text));
  return made;
}

}  // namespace tilewise::bench
