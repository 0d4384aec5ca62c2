#pragma once

namespace tilewise::drop_in {

/// On SIGTERM, SIGINT or SIGHUP, calls `finish` on its own thread and then ends the process by that
/// signal. Signals that the program handles or ignores before this call, or handles later, stay
/// with the program. Call once in a process. It has no effect in children made by fork().
void finish_on_signals(void (*finish)());

}  // namespace tilewise::drop_in
