#pragma once
#include <atomic>

namespace tilewise::cli {

/// Installs handlers. The first Ctrl-C, SIGTERM or SIGHUP, and a write to a closed pipe, set the
/// flag below. A second Ctrl-C or SIGTERM ends the program at once, with its compilers and
/// temporary folders; committed rows stay. A signal that was ignored at the start stays ignored:
/// SIGHUP under nohup, Ctrl-C of a shell's background job.
void catch_interrupts();
/// Whether a signal is ignored now.
bool is_ignored(int signal);
/// Call this first. SIGCHLD gets its default action, without which waiting for a child fails.
/// SIGXFSZ is ignored: a write beyond the limit on file sizes (`ulimit -f`) then fails with EFBIG
/// and does not end the program.
void set_own_signals();
/// Restores the previous actions for a program that replaces this process. Async-signal-safe.
void restore_own_signals();
/// For a worker, whose parent handles these signals: neither a signal to the whole terminal nor a
/// closed pipe may end a measurement.
void ignore_interrupts();
const std::atomic<bool>& interrupted();
/// 128 plus the number of the first signal: 130 for Ctrl-C. 0 without a signal.
int interrupt_status();

}  // namespace tilewise::cli
