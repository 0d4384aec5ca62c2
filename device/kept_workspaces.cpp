#include "device/kept_workspaces.hpp"

namespace tilewise {

/// Open addressing. If an earlier place in its probe sequence was freed, a stream may get that
/// place, too: its launches are in order with either workspace.
KeptWorkspaces::Kept* KeptWorkspaces::find(std::uint64_t stream) noexcept {
  for (std::size_t i = 0; i < kMostStreams; ++i) {
    Kept& kept = places_[(stream + i) % kMostStreams].kept;
    std::uint64_t found = kept.stream_.load(std::memory_order_relaxed);
    if (found == stream) return &kept;
    if (found == 0 && (kept.stream_.compare_exchange_strong(found, stream) || found == stream))
      return &kept;
  }
  return nullptr;
}

KeptWorkspaces::Kept* KeptWorkspaces::take(std::uint64_t stream, std::int64_t bytes) noexcept {
  if (bytes > kMostBytes) return nullptr;
  Kept* kept = find(stream);
  if (kept) {
    if (kept->taken_.exchange(true, std::memory_order_acquire)) return nullptr;
    // Another stream may have taken the place meanwhile.
    const bool is_own = kept->stream_.load(std::memory_order_relaxed) == stream;
    if (is_own && (kept->bytes_ >= bytes || grow(*kept, bytes))) [[likely]] {
      kept->used_ = true;
      return kept;
    }
    give_back(*kept);
  }
  if ((refusals_.fetch_add(1, std::memory_order_relaxed) + 1) % kMostRefusals == 0)
    free_all(/*unused_only=*/true);
  return nullptr;
}

bool KeptWorkspaces::grow(Kept& kept, std::int64_t bytes) noexcept {
  std::int64_t size = kLeastBytes;
  std::size_t nth = 0;
  for (; size < bytes; size *= 2) ++nth;
  if (total_.fetch_add(size, std::memory_order_relaxed) + size <= kMostTotal) {
    if (void* memory = allocate_(size)) {
      kept.data_ = kept.sizes_[nth] = memory;
      kept.bytes_ = size;
      return true;
    }
  }
  total_.fetch_sub(size, std::memory_order_relaxed);
  return false;
}

void KeptWorkspaces::free_all(bool unused_only) noexcept {
  for (Place& place : places_) {
    Kept& kept = place.kept;
    if (kept.taken_.exchange(true, std::memory_order_acquire)) continue;
    if (std::exchange(kept.used_, false) && unused_only) {
      give_back(kept);
      continue;
    }
    std::int64_t size = kLeastBytes;
    for (void*& memory : kept.sizes_) {
      if (memory) {
        free_(std::exchange(memory, nullptr));
        total_.fetch_sub(size, std::memory_order_relaxed);
      }
      size *= 2;
    }
    kept.data_ = nullptr;
    kept.bytes_ = 0;
    kept.stream_.store(0, std::memory_order_relaxed);
    give_back(kept);
  }
}

}  // namespace tilewise
