#pragma once
#include <string>

namespace tilewise {

/// Whether no process of this one's process group has said `text` yet: a program and the workers of
/// its pools say a line once, and a shell's next command says it again. A process remembers what it
/// has said until it ends, and so do the children that fork() makes of it. Thread-safe.
bool first_to_say(const std::string& text);

}  // namespace tilewise
