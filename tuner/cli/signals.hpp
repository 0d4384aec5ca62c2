#pragma once
#include <atomic>

namespace tilewise::cli {

/// From now on the first Ctrl-C, SIGTERM or SIGHUP (unless it is ignored, as by nohup), and a write
/// to a pipe that is closed, set the flag below. A second Ctrl-C or SIGTERM ends the program at
/// once, with its compilers and temporary folders. What was committed stays.
void catch_interrupts();
/// For a worker, whose parent handles these signals: it must not die in mid-measurement of a signal
/// that the whole terminal gets, or of a line that is not read any more.
void ignore_interrupts();
const std::atomic<bool>& interrupted();
/// 128 and the number of the signal that came first: 130 for Ctrl-C. 0 when none came.
int interrupt_status();

}  // namespace tilewise::cli
