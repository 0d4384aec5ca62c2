#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

/// Numbers as text with a point in every locale: programs that embed Tilewise choose their own
/// locale.
namespace tilewise {

/// At most `digits` significant digits, in exponent form for very large or small numbers: the
/// conversion g of the C library.
std::string in_digits(double value, int digits);
/// The fewest digits that reproduce the number.
std::string in_shortest_form(double value);
/// `decimals` digits after the point: the conversion f of the C library.
std::string in_decimals(double value, int decimals);
/// The same in exponent form: the conversion e.
std::string in_exponent_form(double value, int decimals);

/// The number that makes up a whole text, without blanks before it or text after it; empty for
/// other texts and for numbers out of range.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace tilewise
