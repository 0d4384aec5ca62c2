#pragma once

namespace tilewise::drop_in {

/// Calls `finish` on a thread of its own when the process gets SIGTERM, SIGINT or SIGHUP, and then
/// ends it by that signal. Signals that the program handles or ignores at this call, or handles
/// later, are its own. Once in a process; without effect in its children by fork().
void finish_on_signals(void (*finish)());

}  // namespace tilewise::drop_in
