#pragma once
#include <string>

namespace tilewise::cli {

/// Columns for help: COLUMNS or the terminal's, else 80; 20 at least, and 100 at most to be read.
int help_width();

/// Help as CLI11 lays it out, with no line longer than `width`. Descriptions stay in their column
/// where it leaves room for them, and go below the name elsewhere; a command of an example goes on
/// after a backslash.
std::string wrapped_help(const std::string& text, int width);

}  // namespace tilewise::cli
