#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/host/block_runner.hpp"

namespace tilewise::host {

/// Cores this process may use.
int usable_cores();

/// The OS threads that run blocks, each with its own fibers. They wait between launches; the
/// calling thread is one of them.
class Workers {
 public:
  explicit Workers(const HostOptions& options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs every block of the grid; one grid at a time. Empty when all ran to their ends, else what
  /// was wrong with the first that did not.
  std::string run(const BlockWork& work);

 private:
  void wait_for_work(std::size_t worker);
  void take_blocks(std::size_t worker);

  std::vector<std::unique_ptr<BlockRunner>> runners_;  ///< [0] is the caller's
  std::mutex launch_;                                  ///< held while a grid runs
  std::mutex mutex_;                                   ///< guards what follows
  std::condition_variable begun_, done_;
  std::uint64_t launches_ = 0;
  std::size_t busy_ = 0;
  bool ending_ = false;
  std::string failure_;
  const BlockWork* work_ = nullptr;  ///< of the launch under way
  std::uint64_t blocks_ = 0;
  std::atomic<std::uint64_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tilewise::host
