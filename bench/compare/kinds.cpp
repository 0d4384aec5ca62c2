#include "bench/compare/kinds.hpp"

#include <algorithm>
#include <sstream>

#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

bool has_default_result(const ProductKind& kind) { return kind.c == default_result(kind.operand); }

const ProductKind& find_kind(const std::string& name) {
  std::string known;
  for (const ProductKind& kind : product_kinds()) {
    if (kind_name(kind) == name) return kind;
    known += (known.empty() ? "" : ", ") + kind_name(kind);
  }
  throw Error(ErrorKind::invalid_argument,
              "'" + name + "' is no kind of product; there are all, or any of " + known);
}

}  // namespace

std::string kind_name(const ProductKind& kind) {
  std::string name(kind.math == MathMode::strict ? to_string(kind.operand) : to_string(kind.math));
  if (!has_default_result(kind)) name += ":" + std::string(to_string(kind.c));
  return name;
}

std::string kind_name(const Problem& problem) {
  const ProductKind* kind = product_kind(problem);
  if (!kind) throw Error(ErrorKind::unsupported, "nothing computes " + to_string(problem));
  return kind_name(*kind);
}

std::vector<const ProductKind*> parse_kinds(const std::string& text) {
  std::vector<const ProductKind*> kinds;
  if (text == "all") {
    for (const ProductKind& kind : product_kinds())
      if (has_default_result(kind)) kinds.push_back(&kind);
    return kinds;
  }
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const ProductKind* kind = &find_kind(item);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (kinds.empty()) find_kind(text);
  return kinds;
}

std::vector<Problem> of_kind(std::vector<Problem> problems, const ProductKind& kind) {
  for (Problem& problem : problems) {
    set_types(problem, kind.operand, kind.c, kind.math);
    problem.alignment = natural_alignment(problem.layout, problem.m, problem.n, problem.k,
                                          problem.a, problem.b, problem.c);
  }
  return problems;
}

std::string rate_unit(const ProductKind& kind) {
  return is_integer(kind.operand) ? "TOP/s" : "TFLOP/s";
}

}  // namespace tilewise::bench
