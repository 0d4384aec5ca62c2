#pragma once
// How a kernel hands shared memory back to TMA, by its machine code. Instructions are followed
// along all branches: what may have happened before each is the union over all paths to it.
//
// ptxas makes MEMBAR.ALL.CTA and FENCE.VIEW.ASYNC of fence.proxy.async. Loads may be in flight at
// MEMBAR, which ends after them; the fence waits for MEMBAR, and the arrival for the fence.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/machine_code.hpp"

namespace tilewise::test {

/// Loads of shared memory that may be in flight, by their counters. A warp's loads end in the order
/// in which they are issued: who waits for one has waited for those before it.
class LoadsInFlight {
 public:
  bool any() const { return pending_ != 0; }
  void issue(unsigned counter) {
    const std::uint8_t bit = static_cast<std::uint8_t>(1U << counter);
    pending_ |= bit;
    for (std::uint8_t& after : after_) after |= bit;
    after_[counter] = 0;
  }
  void wait(unsigned counters) {
    for (unsigned c = 0; c < after_.size(); ++c)
      if (counters >> c & 1) pending_ &= after_[c];
    for (std::uint8_t& after : after_) after &= pending_;
  }
  void join(const LoadsInFlight& other) {
    pending_ |= other.pending_;
    for (std::size_t c = 0; c < after_.size(); ++c) after_[c] |= other.after_[c];
  }
  bool operator==(const LoadsInFlight&) const = default;

 private:
  std::uint8_t pending_ = 0;
  /// Pending counters whose last load may come after the last one of this counter.
  std::array<std::uint8_t, 8> after_{};
};

/// What may have happened before an instruction.
struct Before {
  /// Of these, the last one on a path.
  enum Event : std::uint8_t {
    load = 1,
    store = 2,
    multiply = 4,
    fence = 8,
    wait = 16,
    arrival = 32
  };
  std::uint8_t last = 0;
  bool load_unfenced = false, store_unfenced = false;  ///< there was no fence since
  LoadsInFlight loads;
  /// Counters of the last ones, while they are in flight.
  std::uint8_t membar = 0, proxy_fence = 0;

  void join(const Before& other) {
    last |= other.last;
    load_unfenced |= other.load_unfenced;
    store_unfenced |= other.store_unfenced;
    loads.join(other.loads);
    membar |= other.membar;
    proxy_fence |= other.proxy_fence;
  }
  /// At the instruction's begin.
  Before at(const Instruction& one) const {
    Before now = *this;
    now.loads.wait(one.waits());
    now.membar = static_cast<std::uint8_t>(membar & ~one.waits());
    now.proxy_fence = static_cast<std::uint8_t>(proxy_fence & ~one.waits());
    return now;
  }
  Before after(const Instruction& one) const {
    Before now = at(one);
    if (one.loads_shared()) now.loads.issue(one.result_counter());
    if (one.is_membar() && one.always()) {
      now.loads = {};  // it ends when the accesses before it have
      now.membar = one.counters();
    }
    if (one.fences_proxy() && one.always()) now.proxy_fence = one.counters();
    now.load_unfenced |= one.loads_shared();
    now.store_unfenced |= one.stores_shared();
    if (one.fences_proxy() && one.always()) now.load_unfenced = now.store_unfenced = false;
    if (const std::uint8_t event = event_of(one))
      now.last = static_cast<std::uint8_t>(event | (one.always() ? 0 : last));
    return now;
  }
  bool operator==(const Before&) const = default;

 private:
  static std::uint8_t event_of(const Instruction& one) {
    if (one.loads_shared()) return load;
    if (one.stores_shared()) return store;
    if (one.multiplies_shared()) return multiply;
    if (one.fences_proxy()) return fence;
    if (one.tries_wait()) return wait;
    return one.arrives() ? arrival : 0;
  }
};

struct StageRelease {
  int instructions = 0, fences_gpu = 0;
  int loads = 0;             ///< of shared memory
  int any_arrivals = 0;      ///< at any barrier
  int arrivals = 0;          ///< at empty barriers, after loads
  int unfenced = 0;          ///< those with a load between the fence and the arrival, or no fence
  int early = 0;             ///< those with a load in flight
  int before_fence = 0;      ///< those with the fence in flight
  int fences_in_flight = 0;  ///< fences with a load or MEMBAR in flight
  int arrivals_of_multiply = 0;  ///< at empty barriers, after wgmma
  int loads_of_multiply = 0;     ///< those with a load, in the order in memory, between the two
  int tma_stores = 0, tma_stores_unfenced = 0;  ///< with a store and no fence since
  int unreached = 0;  ///< of the above instructions, those to which no path was found
};

/// Arrivals at empty barriers are told from others by what comes before them, on some path:
///  - a fence, or a load where the fence is missing: simt and mma free a stage after reading it;
///  - wgmma's instructions: they read the stage.
/// Arrivals at full barriers have the stores of an operand before them or, where a warp has no
/// element to store, the wait for the empty stage. That TMA's bytes are expected is no arrival here
/// (Instruction::arrives()).
class StageReleaseCheck {
 public:
  explicit StageReleaseCheck(const std::vector<Instruction>& code)
      : code_(code), before_(code.size()), reached_(code.size()) {
    follow();
    for (std::size_t i = 0; i < code.size(); ++i) count(i);
  }
  const StageRelease& found() const { return found_; }

 private:
  void follow() {
    reach(0, {});
    while (!open_.empty()) {
      const std::size_t at = open_.back();
      open_.pop_back();
      const Instruction& one = code_[at];
      const Before next = before_[at].after(one);
      if (!one.leaves()) reach(at + 1, next);
      if (one.branches())
        reach(static_cast<std::size_t>(static_cast<std::int64_t>(at) + 1 + one.jump()), next);
    }
  }
  void reach(std::size_t at, const Before& by) {
    if (at >= code_.size()) return;
    Before joined = before_[at];
    joined.join(by);
    if (reached_[at] && joined == before_[at]) return;
    reached_[at] = true;
    before_[at] = joined;
    open_.push_back(at);
  }
  void count(std::size_t i) {
    const Instruction& one = code_[i];
    const Before now = before_[i].at(one);
    const bool counted = one.loads_shared() || one.arrives() || one.fences_proxy();
    found_.unreached += counted && !reached_[i];
    ++found_.instructions;
    found_.fences_gpu += one.fences_gpu();
    found_.loads += one.loads_shared();
    found_.fences_in_flight += one.fences_proxy() && (now.loads.any() || now.membar);
    if (one.stores_by_tma()) {
      ++found_.tma_stores;
      found_.tma_stores_unfenced += now.store_unfenced;
    }
    if (!one.arrives()) return;
    const bool read = now.last & (Before::load | Before::fence);
    ++found_.any_arrivals;
    found_.arrivals += read;
    found_.unfenced += read && now.load_unfenced;
    found_.early += read && now.loads.any();
    found_.before_fence += read && now.proxy_fence;
    if (!(now.last & Before::multiply)) return;
    ++found_.arrivals_of_multiply;
    found_.loads_of_multiply += loaded_before(i);
  }
  /// Of loads and multiplications, the last one before the instruction in memory is a load. Along
  /// the branches there is a path that is never taken: from an epilogue's loads past a product of
  /// no tiles.
  bool loaded_before(std::size_t i) const {
    while (i > 0)
      if (const Instruction& one = code_[--i]; one.loads_shared() || one.multiplies_shared())
        return one.loads_shared();
    return false;
  }

  const std::vector<Instruction>& code_;
  std::vector<Before> before_;
  std::vector<bool> reached_;
  std::vector<std::size_t> open_;
  StageRelease found_;
};

}  // namespace tilewise::test
