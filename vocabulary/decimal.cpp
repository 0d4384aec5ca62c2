#include "vocabulary/decimal.hpp"

#include <charconv>

namespace tilewise {
namespace {

std::string written(double value, std::chars_format format, int precision) {
  char text[400];  // the largest double has 309 digits before the point
  const auto [end, error] = std::to_chars(text, text + sizeof text, value, format, precision);
  return error == std::errc() ? std::string(text, end) : std::to_string(value);
}

}  // namespace

std::string in_digits(double value, int digits) {
  return written(value, std::chars_format::general, digits);
}

std::string in_shortest_form(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string in_decimals(double value, int decimals) {
  return written(value, std::chars_format::fixed, decimals);
}

std::string in_exponent_form(double value, int decimals) {
  return written(value, std::chars_format::scientific, decimals);
}

}  // namespace tilewise
