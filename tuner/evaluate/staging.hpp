#pragma once
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "tuner/evaluate/placement.hpp"
#include "tuner/reference/generate.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

/// The way between device matrices and host threads: some page-locked slots through which pieces of
/// a matrix pass, so that copying one piece, making or judging others overlap, and no matrix is
/// ever whole in host memory. Not thread-safe.
class Staging {
 public:
  /// For matrices placed like these. About 32 MB, more only where a row is longer than that.
  /// `threads` 0 = all cores. Throws Error(device).
  Staging(Device& device, std::span<const Placement> places, int threads = 0);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Fills the whole allocation with canaries, then brings `values` in. Done when it returns.
  void upload(Stream stream, const DeviceMatrix& to, const TestData& values);

  /// Copies the whole allocation, piece by piece, and hands each to `judge` in one of the threads;
  /// returns when all are judged. What a judge throws is thrown here.
  using Judge = std::function<void(const Piece& piece, const std::byte* copy)>;
  void download(Stream stream, const DeviceMatrix& from, const Judge& judge);

  /// Whether a matrix still holds `values` and canaries all around them.
  bool unchanged(Stream stream, const DeviceMatrix& matrix, const TestData& values);

 private:
  struct Slot {
    std::byte* data = nullptr;
    std::unique_ptr<Event> copied;
    bool copying = false;    ///< to the device, until `copied` is reached
    std::future<void> task;  ///< a thread makes or judges what the slot holds
    void finish_task();
    void finish_copy();
  };
  // Nothing may go on in a slot when its user is left, whichever way.
  struct Settled;

  Device& device_;
  std::int64_t piece_bytes_;
  HostBuffer memory_;
  std::vector<Slot> slots_;
  ThreadPool pool_;
};

}  // namespace tilewise
