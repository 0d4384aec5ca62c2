#include "cli/common/kinds.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "matmul/fastest.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

Problem problem_of(const ProductKind& kind) {
  Problem problem;
  problem.m = problem.n = problem.k = 1024;
  set_types(problem, kind);
  return problem;
}

bool can_do(const Problem& problem, const DeviceInfo& device) {
  const auto templates = catalog();
  return std::any_of(templates.begin(), templates.end(), [&](const KernelTemplate& kernel) {
    return kernel.supports(problem, device);
  });
}

template <class Item>
void add_once(std::vector<Item>& list, const Item& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

/// Names of types in other libraries and languages, in lower case.
constexpr std::pair<std::string_view, DType> kOtherNames[] = {
    {"float", DType::f32},
    {"float32", DType::f32},
    {"fp32", DType::f32},
    {"single", DType::f32},
    {"double", DType::f64},
    {"float64", DType::f64},
    {"fp64", DType::f64},
    {"half", DType::f16},
    {"float16", DType::f16},
    {"fp16", DType::f16},
    {"bfloat16", DType::bf16},
    {"bfloat", DType::bf16},
    {"int8", DType::i8},
    {"s8", DType::i8},
    {"int", DType::i32},
    {"int32", DType::i32},
    {"s32", DType::i32},
    {"fp8", DType::e4m3},
    {"fp8", DType::e5m2},
    {"float8", DType::e4m3},
    {"float8", DType::e5m2},
    {"fp8_e4m3", DType::e4m3},
    {"e4m3fn", DType::e4m3},
    {"float8_e4m3", DType::e4m3},
    {"float8_e4m3fn", DType::e4m3},
    {"fp8_e5m2", DType::e5m2},
    {"float8_e5m2", DType::e5m2},
};

/// " (did you mean f16?)", or "" without a near allowed type.
std::string type_suggestion(const std::string& text, const std::vector<DType>& allowed) {
  const std::string lower = lower_case(text);
  if (lower == "tf32" || lower == "f32x3")
    return " (" + lower + " is a mode of f32: --math " + lower + ")";
  std::string names;
  const auto add = [&](DType type) {
    if (std::find(allowed.begin(), allowed.end(), type) != allowed.end())
      append(names, to_string(type), " or ");
  };
  for (const auto& [name, type] : kOtherNames)
    if (name == lower) add(type);
  for (const DTypeInfo& type : dtypes())
    if (type.name == lower) add(type.type);
  return names.empty() ? "" : " (did you mean " + names + "?)";
}

}  // namespace

std::vector<DType> operand_types() {
  std::vector<DType> types;
  for (const ProductKind& kind : product_kinds()) add_once(types, kind.a);
  return types;
}

std::vector<DType> types_beside(DType a) {
  std::vector<DType> types;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == a) add_once(types, kind.b);
  return types;
}

std::vector<DType> types_beside(DType a, DType c, MathMode math) {
  std::vector<DType> types;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == a && kind.c == c && kind.math == math) add_once(types, kind.b);
  return types;
}

std::vector<DType> result_types(DType operand, MathMode math) {
  std::vector<DType> types;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == operand && kind.math == math) add_once(types, kind.c);
  return types;
}

DType parse_type(const std::string& option, const std::string& text,
                 const std::vector<DType>& allowed) {
  for (const DTypeInfo& type : dtypes())
    if (type.name == text) return type.type;
  throw Error(ErrorKind::invalid_argument, option + ": unknown type '" + text + "'" +
                                               type_suggestion(text, allowed) + "; there are " +
                                               join(allowed));
}

std::vector<std::string> kinds_on(const DeviceInfo& device) {
  std::vector<std::string> kinds;
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = problem_of(kind);
    if (can_do(problem, device)) kinds.push_back(kind_text(problem));
  }
  return kinds;
}

std::vector<std::string> operand_types_on(const DeviceInfo& device) {
  std::vector<std::string> types;
  for (const ProductKind& kind : product_kinds())
    if (can_do(problem_of(kind), device)) add_once(types, std::string(to_string(kind.a)));
  return types;
}

void check_kind(const Problem& problem, const DeviceInfo& device) {
  if (can_do(problem, device)) return;
  check_grouping(problem);
  if (const std::string why = unsupported_scales(problem); !why.empty())
    throw Error(ErrorKind::invalid_argument, why);
  throw Error(ErrorKind::unsupported, "no kernel template computes " + table_text(problem) + " (" +
                                          kind_text(problem) + ") on " + device.name + " (" +
                                          to_string(device.target) +
                                          "), which can do: " + join(kinds_on(device)));
}

MathMode mode_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                     const std::vector<Winner>& winners) {
  const Resolver resolver(winners, device);
  const Resolver portfolio({}, device, "", portfolio_for(device), [&](const Problem& kind) {
    return portfolio_corrections(kind, device);
  });
  return fastest_within(problem, accuracy, device, [&](const Problem& asked) {
    return resolve_with_portfolio(
        resolver, [&] { return &portfolio; }, asked);
  });
}

}  // namespace tilewise::cli
