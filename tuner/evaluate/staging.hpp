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

/// Transfers between device matrices and host threads through page-locked slots. A matrix passes in
/// pieces: copying one piece overlaps generating or judging others, and host memory never holds a
/// whole matrix. Not thread-safe.
class Staging {
 public:
  /// For matrices with these placements. About 32 MB of slots, more only where a row is longer.
  /// `threads` 0 = all cores. Throws Error(device).
  Staging(Device& device, std::span<const Placement> places, int threads = 0);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Fills the whole allocation with canaries, then uploads `values`. Returns when done.
  void upload(Stream stream, const DeviceMatrix& to, const TestData& values);

  /// Copies the whole allocation piece by piece and passes each piece to `judge` in one of the
  /// threads. Returns when all pieces are judged; rethrows an exception of `judge`.
  using Judge = std::function<void(const Piece& piece, const std::byte* copy)>;
  void download(Stream stream, const DeviceMatrix& from, const Judge& judge);

  /// Whether a matrix still holds `values`, surrounded by canaries.
  bool unchanged(Stream stream, const DeviceMatrix& matrix, const TestData& values);

 private:
  struct Slot {
    std::byte* data = nullptr;
    std::unique_ptr<Event> copied;
    bool copying = false;    ///< an upload from this slot is under way until `copied`
    std::future<void> task;  ///< a thread generates or judges the slot's contents
    void finish_task();
    void finish_copy();
  };
  // Waits for every slot's task on scope exit, also when an exception leaves the scope.
  struct Settled;

  Device& device_;
  std::int64_t piece_bytes_;
  HostBuffer memory_;
  std::vector<Slot> slots_;
  ThreadPool pool_;
};

}  // namespace tilewise
