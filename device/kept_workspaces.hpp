#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace tilewise {

/// Workspaces that stay allocated, one for each stream. The launches of a stream run one after the
/// other, so its products can share one workspace without calls of the allocator. Bounded:
/// kMostStreams streams, kMostBytes for a product, kMostTotal in all. Thread-safe; no function
/// waits for a lock, but `free` waits for the device.
class KeptWorkspaces {
 public:
  static constexpr std::size_t kMostStreams = 64;
  /// Bounds of a workspace's size; powers of two.
  static constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10;
  static constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
  static constexpr std::int64_t kMostTotal = std::int64_t{512} << 20;
  /// One in this many calls that reach a bound frees the workspaces that were not used since the
  /// last time. Destroyed streams cannot be recognised in another way.
  static constexpr std::uint64_t kMostRefusals = 1024;

  /// The workspace of one stream. From take() to give_back() no other product uses it.
  class Kept {
   public:
    void* data() const { return data_; }

   private:
    friend class KeptWorkspaces;
    std::atomic<std::uint64_t> stream_{0};  // 0: no stream; reset only while taken_
    std::atomic<bool> taken_{false};        // guards all members below
    void* data_ = nullptr;
    std::int64_t bytes_ = 0;
    bool used_ = false;  // since the last free_all(true)
    /// Allocations of kLeastBytes, twice that, and so on: data_ is the largest. Running launches
    /// may use the smaller ones.
    std::array<void*, 10> sizes_{};
  };

  /// `allocate` returns null when no memory is left; neither function throws.
  using Allocate = std::function<void*(std::int64_t bytes)>;
  using Free = std::function<void(void*)>;
  KeptWorkspaces(Allocate allocate, Free free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}
  KeptWorkspaces(const KeptWorkspaces&) = delete;
  KeptWorkspaces& operator=(const KeptWorkspaces&) = delete;
  ~KeptWorkspaces() { free_idle(); }

  /// The stream's workspace, of at least `bytes`. Null if another thread has taken it, a bound is
  /// reached, or no memory is left: then the caller allocates. `stream` is not 0 and is unique
  /// among all streams of the process, including destroyed ones.
  Kept* take(std::uint64_t stream, std::int64_t bytes) noexcept;
  /// Call when the launches that use it are enqueued.
  void give_back(Kept& kept) noexcept { kept.taken_.store(false, std::memory_order_release); }

  /// Frees the workspaces that are not taken, and their places. `free` must wait for the launches
  /// that use them, as cuMemFree does.
  void free_idle() noexcept { free_all(/*unused_only=*/false); }

  std::int64_t total_bytes() const { return total_.load(std::memory_order_relaxed); }

 private:
  Kept* find(std::uint64_t stream) noexcept;
  bool grow(Kept& kept, std::int64_t bytes) noexcept;
  void free_all(bool unused_only) noexcept;

  const Allocate allocate_;
  const Free free_;
  struct alignas(128) Place {  // no two in one cache line
    Kept kept;
  };
  std::array<Place, kMostStreams> places_;
  std::atomic<std::int64_t> total_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

}  // namespace tilewise
