#pragma once
#include <string>

namespace tilewise::cli {

/// Columns for help: COLUMNS or the terminal's width, else 80; clamped to 20 .. 100.
int help_width();

/// CLI11's help text with no line longer than `width`. Descriptions stay in their column where
/// there is room, else they go below the name; a wrapped example command ends its lines with a
/// backslash.
std::string wrapped_help(const std::string& text, int width);

}  // namespace tilewise::cli
