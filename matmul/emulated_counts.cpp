#include "matmul/emulated_counts.hpp"

#include <atomic>
#include <new>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

Problem counted_as(Problem problem) {
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

std::uint64_t read_shared(std::uint64_t& number) {
  return std::atomic_ref(number).load(std::memory_order_relaxed);
}

}  // namespace

EmulatedCounts* CountedProblems::counts_of(const Problem& problem) {
  const Problem counted = counted_as(problem);
  const std::lock_guard lock(mutex_);
  if (const auto place = places_.find(counted); place != places_.end()) return place->second;
  const std::size_t nth = places_.size();
  if (nth == kMost) return nullptr;
  try {
    if (nth / kOfBlock == blocks_.size())
      blocks_.emplace_back(device_, static_cast<std::int64_t>(kOfBlock * sizeof(EmulatedCounts)));
  } catch (const Error&) {
    return nullptr;
  }
  std::byte* at = blocks_[nth / kOfBlock].data() + nth % kOfBlock * sizeof(EmulatedCounts);
  return places_[counted] = new (at) EmulatedCounts;
}

EmulatedCounts CountedProblems::read(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(counted_as(problem));
  if (place == places_.end()) return {};
  return {read_shared(place->second->emulated), read_shared(place->second->native)};
}

}  // namespace tilewise
