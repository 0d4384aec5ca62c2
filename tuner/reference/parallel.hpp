#pragma once
#include <cstdint>
#include <functional>

namespace tilewise {

/// 0 means all cores this process may use.
int thread_count(int threads);

/// Calls task(index, worker) once for each index in 0 .. count-1, from `threads` threads (0 = all
/// cores; worker is 0 .. threads-1), in no order. Returns when all are done; the first exception
/// thrown by a task is thrown again here.
void parallel_for(std::int64_t count, int threads,
                  const std::function<void(std::int64_t index, int worker)>& task);

}  // namespace tilewise
