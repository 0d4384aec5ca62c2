#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cpu/block_runner.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::cpu {

/// Runs the blocks of grids on a thread pool and the calling thread. Each worker has its own
/// fibers.
class Workers {
 public:
  explicit Workers(const CpuOptions& options);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs every block of the grid; one grid at a time. Returns the first mistake, or an empty text
  /// when all completed.
  std::string run(const BlockWork& work);

 private:
  std::vector<std::unique_ptr<BlockRunner>> runners_;  ///< by worker; [0] is the caller's
  std::mutex launch_;                                  ///< locked while a grid runs
  ThreadPool pool_;                                    ///< last: it uses the runners
};

}  // namespace tilewise::cpu
