#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api/host_pointers/host_plan.hpp"
#include "api/host_pointers/host_staging.hpp"
#include "matmul/executable.hpp"

namespace tilewise {

/// The chunks of one direction that are enqueued. Guarded by HostProgress.
struct HostTurns {
  std::vector<char> enqueued;
  std::int64_t first_left = 0;  ///< all chunks before this one are enqueued
};

/// The progress of a product, shared by the threads that upload, launch and download. Thread-safe.
class HostProgress {
 public:
  struct Ended {};  ///< thrown by waits after a failure elsewhere

  HostProgress(std::size_t copies, std::size_t tiles) : copied_(copies), downloaded_(tiles) {}
  // Functions report that work is enqueued; events keep the device's order.
  /// Marks chunk `i` of a direction as enqueued.
  void passed(HostTurns& turns, std::int64_t i);
  /// Waits until the chunks before `i` are enqueued.
  void wait_for_turn(const HostTurns& turns, std::int64_t i);
  void copied(std::size_t copy) { mark(copied_[copy]); }
  void launched() { mark(launched_, launched_ + 1); }
  void downloaded(std::size_t tile) { mark(downloaded_[tile]); }
  /// For -1 these return at once.
  void wait_for_copy(std::int64_t copy);
  void wait_for_launch(std::int64_t tile);
  void wait_for_download(std::int64_t tile);

  /// Runs one thread's part. A failure ends the waits of all threads.
  template <class Work>
  void run(Work work) noexcept {
    try {
      work();
    } catch (const Ended&) {  // the failure is recorded already
    } catch (...) {
      fail(std::current_exception());
    }
  }
  std::exception_ptr failure() const { return failure_; }  ///< call after all threads have ended

 private:
  template <class Value>
  void mark(Value& value, Value to = 1) {
    {
      const std::lock_guard lock(mutex_);
      value = to;
    }
    changed_.notify_all();
  }
  template <class Done>
  void wait_until(Done done);
  void fail(std::exception_ptr failure) noexcept;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<char> copied_, downloaded_;
  std::int64_t launched_ = 0;
  std::exception_ptr failure_;
};

/// One product on host pointers by tiles. Copies to the device, products and copies back overlap,
/// each on its own stream. Some threads fill page-locked buffers from A, B and C, others empty
/// buffers with results. If the caller's memory is page-locked, it is copied directly.
class StreamedProduct {
 public:
  using Executables = std::map<Problem, std::shared_ptr<const Executable>>;

  /// Uses the device memory of `staging`. `executables` has those of fit.plan.problems().
  StreamedProduct(Device& device, HostStaging& staging, const FittingSplit& fit,
                  const Executables& executables, const Call& call);
  /// Returns or throws only after nothing reads or writes the caller's memory any more. C is
  /// complete on return.
  void run();

 private:
  /// The place of one block on the device, and the events of its copies and products.
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> copied, computed, downloaded;
  };
  /// The caller's matrices of an operand. Lengths in elements.
  struct Matrices {
    std::byte* data = nullptr;
    std::int64_t ld = 0, stride = 0;
    DType type = DType::f32;
    bool page_locked = false;
  };
  /// A part of a block that is copied at once: bytes of its rows on the device.
  struct Chunk {
    std::int64_t of = 0;  ///< number of the copy, or of the tile that is downloaded
    std::int64_t row = 0, rows = 0, begin = 0, bytes = 0;
    bool direct = false;
  };

  void make_slots(std::int64_t workspace);
  Matrices matrices(HostOperand operand, const Call& call) const;
  bool is_direct(HostOperand operand, const HostBlock& block) const;
  void add_chunks(std::vector<Chunk>& chunks, std::vector<std::atomic<int>>& left, std::int64_t of,
                  HostOperand operand, const HostTile& tile);
  void upload(std::int64_t number, int worker);
  void download(std::int64_t number, int worker);
  void launch_all();
  void launch(const HostTile& tile);
  void wait_for_streams() noexcept;
  Slot& slot(HostOperand operand, int number) {
    return slots_[static_cast<std::size_t>(operand)][static_cast<std::size_t>(number)];
  }
  const Matrices& host(HostOperand operand) const {
    return host_[static_cast<std::size_t>(operand)];
  }
  std::byte* host_row(HostOperand operand, const HostBlock& block, std::int64_t row) const;
  template <class Move>
  void each_row(HostOperand operand, const HostBlock& block, const Chunk& chunk, Move move) const;

  Device& device_;
  HostStaging& staging_;
  const HostPlan& plan_;
  const Executables& executables_;
  const Call& call_;
  std::array<Matrices, 3> host_;
  std::vector<Chunk> uploads_, downloads_;
  std::vector<std::atomic<int>> uploads_left_, downloads_left_;  // chunks left, by copy and by tile
  HostTurns upload_turns_, download_turns_;
  HostProgress progress_;
  std::array<std::vector<Slot>, 3> slots_;
  void* workspace_ = nullptr;
  const OwnedStream &up_, &compute_, &down_;
};

}  // namespace tilewise
