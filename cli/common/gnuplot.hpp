#pragma once
#include <string>

/// Figures drawn by gnuplot, a program of its own.
namespace tilewise::cli {

/// The path of gnuplot. Throws Error(unsupported), with the package that has it, when it is not on
/// PATH.
std::string find_gnuplot();
/// Runs a script, which writes `svg`. Throws Error(io) with gnuplot's message.
void draw(const std::string& gnuplot, const std::string& script, const std::string& svg);
/// A text of a script in single quotes.
std::string gnuplot_quoted(const std::string& text);

}  // namespace tilewise::cli
