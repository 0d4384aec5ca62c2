#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace tilewise {

/// A cache of yes/no answers by combination, of limited size: a later answer may replace another.
/// Lock-free; thread-safe.
class KnownAnswers {
 public:
  /// For combinations 0 .. count-1, count up to 2^62.
  explicit KnownAnswers(std::uint64_t count)
      : mask_(slots_for(count) - 1),
        slots_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

  std::optional<bool> find(std::uint64_t combination) const {
    const std::uint64_t found = slot(combination).load(std::memory_order_relaxed);
    if (found >> 1 != combination + 1) return std::nullopt;
    return (found & 1) != 0;
  }
  void add(std::uint64_t combination, bool answer) {
    slot(combination)
        .store((combination + 1) << 1 | static_cast<std::uint64_t>(answer),
               std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kMostSlots = 1 << 16;  // 512 KiB
  static std::uint64_t slots_for(std::uint64_t count) {
    std::uint64_t slots = 1;
    while (slots < count && slots < kMostSlots) slots *= 2;
    return slots;
  }
  // Few combinations have a slot each; more are spread by Fibonacci hashing.
  std::atomic<std::uint64_t>& slot(std::uint64_t combination) const {
    const std::uint64_t spread =
        mask_ + 1 < kMostSlots ? combination : combination * 0x9E3779B97F4A7C15U >> 40;
    return slots_[spread & mask_];
  }

  std::uint64_t mask_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> slots_;
};

}  // namespace tilewise
