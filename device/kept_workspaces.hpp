#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace tilewise {

/// Workspaces that stay allocated, one for each stream. The launches of a stream run one after the
/// other, so the products of a stream can share one workspace, without a call of the allocator.
/// Bounded: kMostStreams streams, kMostBytes for a product, kMostTotal in all. Thread-safe; no
/// function waits for a lock, but `free` waits for the device.
class KeptWorkspaces {
 public:
  static constexpr std::size_t kMostStreams = 64;
  /// Of a workspace; powers of two.
  static constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10;
  static constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
  static constexpr std::int64_t kMostTotal = std::int64_t{512} << 20;
  /// Of calls that find a bound reached, one in so many makes place: the workspaces that were not
  /// used since the last time are freed. Streams that were destroyed are known by nothing else.
  static constexpr std::uint64_t kMostRefusals = 1024;

  /// The workspace of one stream. From take() to give_back() no other product uses it.
  class Kept {
   public:
    void* data() const { return data_; }

   private:
    friend class KeptWorkspaces;
    std::atomic<std::uint64_t> stream_{0};  // 0: of none; given up only where taken_
    std::atomic<bool> taken_{false};        // guards all below
    void* data_ = nullptr;
    std::int64_t bytes_ = 0;
    bool used_ = false;  // since free_all(true) last came by
    /// Of kLeastBytes, twice that, and so on: data_ is the largest. Launches that have not ended
    /// may use the smaller ones.
    std::array<void*, 10> sizes_{};
  };

  /// `allocate` returns null where no memory is left; neither function throws.
  using Allocate = std::function<void*(std::int64_t bytes)>;
  using Free = std::function<void(void*)>;
  KeptWorkspaces(Allocate allocate, Free free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}
  KeptWorkspaces(const KeptWorkspaces&) = delete;
  KeptWorkspaces& operator=(const KeptWorkspaces&) = delete;
  ~KeptWorkspaces() { free_idle(); }

  /// The stream's workspace, of `bytes` at least. Null where another thread has taken it, where a
  /// bound is reached, and where no memory is left: then the caller allocates. `stream` is not 0
  /// and is the number of no other stream of the process, not even of one that was destroyed.
  Kept* take(std::uint64_t stream, std::int64_t bytes) noexcept;
  /// After the launches that use it are enqueued.
  void give_back(Kept& kept) noexcept { kept.taken_.store(false, std::memory_order_release); }

  /// Frees the workspaces that are not taken, and gives up their places. `free` must wait for the
  /// launches that use them, as cuMemFree does.
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
