// Warp operations: BlockRunner::warp() and its checks.
#include <bit>
#include <cstdio>
#include <cstring>

#include "device/cpu/block_runner.hpp"

namespace tilewise::cpu {

std::string text(const WarpCall& call) {
  char lanes[32];
  std::snprintf(lanes, sizeof lanes, " (lanes 0x%08x)", call.lanes);
  return std::string("with ") + call.name + " at " + text(call.site) + lanes;
}

namespace {

bool has(unsigned lanes, unsigned lane) { return (lanes >> lane & 1U) != 0; }

bool same(const WarpCall& x, const WarpCall& y) {
  return x.lanes == y.lanes && cpu::same(x.site, y.site) && std::strcmp(x.name, y.name) == 0;
}

}  // namespace

/// Checks that every named lane can arrive. CUDA permits naming lanes that have ended; here it is
/// an error, since it is nearly always an early return.
void BlockRunner::check_lanes(const WarpCall& call, unsigned thread) {
  const auto refuse = [&](auto why) {
    fail([&] {
      return "mismatched warp operation: " + name_of(thread) + " waits " + text(call) + ", " +
             why();
    });
  };
  const unsigned first = thread / kWarp * kWarp, end = (thread / count_ + 1) * count_;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!has(call.lanes, lane)) continue;
    const unsigned other = first + lane;
    if (other >= end)
      refuse([&] {
        return "which names lane " + std::to_string(lane) + ", but this warp has " +
               std::to_string(end - first) + " threads";
      });
    const Fiber& fiber = fibers_[other];
    if (fiber.ready_at == kNever) refuse([&] { return "but " + name_of(other) + " has ended"; });
    if (fiber.ready_at > block_of(fiber).phase && fiber.ready_at != kForLanes)
      refuse([&] {
        return "but " + name_of(other) + " waits at the barrier at " +
               text(Site{fiber.file, fiber.line});
      });
  }
}

/// The meeting of a call. Two lanes that wait for each other at different places are an error.
BlockRunner::Meeting& BlockRunner::meeting_of(const WarpCall& call, unsigned thread) {
  const unsigned lane = thread % kWarp;
  Warp& warp = warps_[thread / kWarp];
  for (Meeting& meeting : warp.open)
    if (same(meeting.call, call)) return meeting;
  for (const Meeting& meeting : warp.open)
    if (has(meeting.call.lanes, lane) && (meeting.arrived & call.lanes) != 0)
      fail([&] {
        return "mismatched warp operation: " + name_of(thread) + " waits " + text(call) + ", " +
               name_of(meeting.thread) + " " + text(meeting.call);
      });
  check_lanes(call, thread);
  Meeting meeting;
  meeting.call = call;
  meeting.thread = thread;
  if (call.orders_memory) meeting.slot = FiberChecks::slot_of_warp(thread / kWarp, warp.met++);
  return warp.open.emplace_back(meeting);
}

void BlockRunner::warp(const WarpCall& call) {
  Fiber& me = *current_;
  const unsigned thread = number_of(me), first = thread / kWarp * kWarp, lane = thread % kWarp;
  if (!has(call.lanes, lane))
    fail([&] {
      return name_of(thread) + ", lane " + std::to_string(lane) + ", takes part " + text(call) +
             ", which does not name it";
    });
  Meeting& meeting = meeting_of(call, thread);
  meeting.arrived |= 1U << lane;
  meeting.brought[lane] = call.mine;
  const unsigned slot = meeting.slot;
  if (call.orders_memory) checks_.release(slot);
  idle_yields_ = 0;
  if (meeting.arrived == call.lanes) {
    call.apply(meeting.brought, call);
    for (unsigned lanes = call.lanes; lanes != 0; lanes &= lanes - 1)
      fibers_[first + static_cast<unsigned>(std::countr_zero(lanes))].ready_at = 0;
    auto& open = warps_[thread / kWarp].open;
    open.erase(open.begin() + (&meeting - open.data()));
  } else {
    me.file = call.site.file, me.line = call.site.line;
    me.operation = call.name;
    me.ready_at = kForLanes;
    run_others();
  }
  if (call.orders_memory) checks_.acquire(slot);
}

}  // namespace tilewise::cpu
