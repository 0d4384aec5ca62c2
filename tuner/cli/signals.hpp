#pragma once
#include <atomic>

namespace tilewise::cli {

/// From now on the first Ctrl-C (or SIGTERM) sets the flag below and says so; the second ends the
/// program at once with status 130. What was committed stays.
void catch_interrupts();
/// Ctrl-C is the parent's to handle: a worker must not die of it in mid-measurement.
void ignore_interrupts();
const std::atomic<bool>& interrupted();

}  // namespace tilewise::cli
