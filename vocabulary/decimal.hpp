#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

/// Numbers as text, with a point in every locale: programs that embed Tilewise choose their own.
namespace tilewise {

/// At most `digits` significant digits, in exponent form where the number is far from 1: the
/// conversion g of the C library.
std::string in_digits(double value, int digits);
/// As few digits as give the number again.
std::string in_shortest_form(double value);
/// `decimals` digits behind the point: the conversion f of the C library.
std::string in_decimals(double value, int decimals);

/// The number that a whole text is, without blanks before it or text behind; nothing for other
/// texts and for numbers out of range.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace tilewise
