#pragma once
// How a kernel returns shared memory to TMA, from its machine code. Instructions are followed along
// all branches; the state before each one is the union over all paths to it.
//
// ptxas turns fence.proxy.async into MEMBAR.ALL.CTA and FENCE.VIEW.ASYNC. Loads may be in flight at
// MEMBAR, which ends after them; the fence waits for MEMBAR, and the arrival for the fence.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/machine_code.hpp"

namespace tilewise::test {

/// Loads of shared memory that may be in flight, by their counters. A warp's loads end in the order
/// of their issue, so a wait for one is also a wait for those before it.
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
  /// For each counter, pending counters whose last load may come after its last load.
  std::array<std::uint8_t, 8> after_{};
};

/// The possible state before an instruction.
struct Before {
  /// The last of these events on a path.
  enum Event : std::uint8_t {
    load = 1,
    store = 2,
    multiply = 4,
    fence = 8,
    wait = 16,
    arrival = 32
  };
  std::uint8_t last = 0;
  bool load_unfenced = false, store_unfenced = false;  ///< without a fence since
  LoadsInFlight loads;
  /// Counters of the last MEMBAR and fence while they are in flight.
  std::uint8_t membar = 0, proxy_fence = 0;

  void join(const Before& other) {
    last |= other.last;
    load_unfenced |= other.load_unfenced;
    store_unfenced |= other.store_unfenced;
    loads.join(other.loads);
    membar |= other.membar;
    proxy_fence |= other.proxy_fence;
  }
  /// The state when the instruction starts.
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
      now.loads = {};  // MEMBAR ends after the accesses before it
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
  int loads = 0;                 ///< loads of shared memory
  int any_arrivals = 0;          ///< at any barrier
  int arrivals = 0;              ///< at empty barriers, after loads
  int unfenced = 0;              ///< of these, with a load between fence and arrival, or no fence
  int early = 0;                 ///< of these, with a load in flight
  int before_fence = 0;          ///< of these, with the fence in flight
  int fences_in_flight = 0;      ///< fences with a load or MEMBAR in flight
  int arrivals_of_multiply = 0;  ///< at empty barriers, after wgmma
  int loads_of_multiply = 0;     ///< of these, with a load between the two in memory order
  /// Stores and loads by TMA; of these, with a load or a store of shared memory and no fence since.
  int tma_stores = 0, tma_loads = 0, tma_unfenced = 0;
  int unreached = 0;  ///< instructions of the above to which no path was found
};

/// Arrivals at empty barriers are identified by the instructions before them on some path:
///  - a fence, or a load if the fence is missing: simt and mma free a stage after reading it;
///  - wgmma's instructions, which read the stage.
/// Arrivals at full barriers come after the stores of an operand or, in a warp without elements to
/// store, after the wait for the empty stage. An announcement of TMA's bytes does not count as an
/// arrival (Instruction::arrives()).
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
    found_.tma_stores += one.stores_by_tma();
    found_.tma_loads += one.loads_by_tma();
    if (one.stores_by_tma() || one.loads_by_tma())
      found_.tma_unfenced += now.load_unfenced || now.store_unfenced;
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
  /// Whether the last load or multiplication before the instruction in memory is a load. Branches
  /// are not used, because one path is never taken: from an epilogue's loads past a product of no
  /// tiles.
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
