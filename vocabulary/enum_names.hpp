#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/text.hpp"

// Names of enums: each enum has to_string() and values from 0 to kLast.
namespace tilewise {

template <class T>
concept Enumeration = std::is_enum_v<T>;

template <class Enum>
inline constexpr Enum kLast{};
template <>
inline constexpr Layout kLast<Layout> = Layout::tt;
template <>
inline constexpr DType kLast<DType>{kDTypes - 1};
template <>
inline constexpr MathMode kLast<MathMode> = MathMode::emulated;
template <>
inline constexpr Grouping kLast<Grouping> = Grouping::depth;
template <>
inline constexpr Distribution kLast<Distribution> = Distribution::one_hot;
template <>
inline constexpr Outcome kLast<Outcome> = Outcome::timeout;
template <>
inline constexpr Origin kLast<Origin> = Origin::shipped;
template <>
inline constexpr StepRole kLast<StepRole> = StepRole::native;
template <>
inline constexpr Argument::Kind kLast<Argument::Kind> = Argument::Kind::tolerance;
template <>
inline constexpr Objective kLast<Objective> = Objective::energy;

/// The value of that name; empty for an unknown name.
template <Enumeration Enum>
std::optional<Enum> named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(kLast<Enum>); ++i)
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return {};
}

/// "ok, compile_error, ..."
template <Enumeration Enum>
std::string names_of(std::string_view separator = ", ") {
  std::string names;
  for (int i = 0; i <= static_cast<int>(kLast<Enum>); ++i)
    append(names, to_string(static_cast<Enum>(i)), separator);
  return names;
}

/// Throws Error(invalid_argument) with the existing names; `what` is the noun, such as "outcome".
template <Enumeration Enum>
Enum parse_named(std::string_view name, const std::string& what) {
  if (const auto value = named<Enum>(name)) return *value;
  throw Error(ErrorKind::invalid_argument, "unknown " + what + " \"" + std::string(name) +
                                               "\"; the " + what + "s are " + names_of<Enum>());
}

}  // namespace tilewise
