#pragma once
#include <string>

namespace tilewise {

/// Whether no process of this process group has issued `text` before. A program and its pool
/// workers thus issue a line once, and a shell's next command issues it again. A process remembers
/// its lines until it ends, and so do children that fork() makes of it. Thread-safe.
bool first_to_say(const std::string& text);

}  // namespace tilewise
