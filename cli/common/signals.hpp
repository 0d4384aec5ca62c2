#pragma once
#include <atomic>

namespace tilewise::cli {

/// Installs handlers: the first Ctrl-C, SIGTERM or SIGHUP, and a write to a closed pipe, set the
/// flag below. A second Ctrl-C or SIGTERM ends the program at once, with its compilers and
/// temporary folders. Committed rows stay. A signal that the program began with ignored stays
/// ignored: SIGHUP under nohup, Ctrl-C of a shell's background job.
void catch_interrupts();
/// Whether a signal is ignored now.
bool is_ignored(int signal);
/// Called first. SIGCHLD gets its default action, without which no child could be waited for.
/// SIGXFSZ is ignored: a file beyond the limit on file sizes (`ulimit -f`) is then an error of its
/// writer, EFBIG, not the end of the program.
void set_own_signals();
/// Their actions of before, for a program that takes this one's place. Async-signal-safe.
void restore_own_signals();
/// For a worker, whose parent handles these signals: a signal to the whole terminal, or a closed
/// pipe, must not end a measurement.
void ignore_interrupts();
const std::atomic<bool>& interrupted();
/// 128 plus the number of the first signal: 130 for Ctrl-C. 0 without a signal.
int interrupt_status();

}  // namespace tilewise::cli
