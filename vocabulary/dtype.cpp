#include "tilewise/dtype.hpp"

#include <array>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

// One row a type, in the order of the enum. A new type is a new row here and in the enum.
constexpr std::array kTypes{
    DTypeInfo{DType::f32, "f32", 4, 0x1p-24},
};

constexpr std::array<std::string_view, 1> kMathModes{"strict"};

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kTypes.at(static_cast<std::size_t>(type)); }

std::string_view to_string(DType type) { return dtype_info(type).name; }

std::string_view to_string(MathMode mode) { return kMathModes.at(static_cast<std::size_t>(mode)); }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const DTypeInfo& row : kTypes) {
    if (row.name == name) return row.type;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorKind::invalid_argument,
              "unknown type \"" + std::string(name) + "\"; the types are: " + known);
}

MathMode parse_math_mode(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kMathModes.size(); ++i) {
    if (kMathModes[i] == name) return static_cast<MathMode>(i);
    known += (known.empty() ? "" : ", ") + std::string(kMathModes[i]);
  }
  throw Error(ErrorKind::invalid_argument,
              "unknown math mode \"" + std::string(name) + "\"; the modes are: " + known);
}

}  // namespace tilewise
