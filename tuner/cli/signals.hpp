#pragma once
#include <atomic>

namespace tilewise::cli {

/// Installs handlers: the first Ctrl-C, SIGTERM or SIGHUP (unless ignored, as by nohup), and a
/// write to a closed pipe, set the flag below. A second Ctrl-C or SIGTERM ends the program at once,
/// with its compilers and temporary folders. Committed rows stay.
void catch_interrupts();
/// For a worker, whose parent handles these signals: a signal to the whole terminal, or a closed
/// pipe, must not end a measurement.
void ignore_interrupts();
const std::atomic<bool>& interrupted();
/// 128 plus the number of the first signal: 130 for Ctrl-C. 0 without a signal.
int interrupt_status();

}  // namespace tilewise::cli
