#pragma once
#include <string>

/// Numbers as text, with a point in every locale: programs that embed Tilewise choose their own.
namespace tilewise {

/// At most `digits` significant digits, in exponent form where the number is far from 1: the
/// conversion g of the C library.
std::string in_digits(double value, int digits);
/// As few digits as give the number again.
std::string in_shortest_form(double value);
/// `decimals` digits behind the point: the conversion f of the C library.
std::string in_decimals(double value, int decimals);

}  // namespace tilewise
