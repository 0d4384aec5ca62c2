#pragma once
#include <string>

namespace tilewise::cli {

/// Columns for help: COLUMNS, otherwise the terminal's width, otherwise 80; clamped to 20 .. 100.
int help_width();

/// CLI11's help text with no line longer than `width`. Descriptions stay in their column where
/// there is room, otherwise they go below the name. Lines of a wrapped example command end with a
/// backslash.
std::string wrapped_help(const std::string& text, int width);

}  // namespace tilewise::cli
