#include "tuner/evaluate/repetition.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "device/checksum.hpp"

namespace tilewise {
namespace {

constexpr double kRoundSeconds = 0.01;
constexpr std::int64_t kMostOfARound = 512;  // launches
constexpr std::int64_t kPieceBytes = std::int64_t{32} << 20;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

Repetition::Repetition(Device& device, Stream stream, std::vector<Call> calls,
                       std::vector<Range> written)
    : device_(device),
      stream_(stream),
      calls_(std::move(calls)),
      written_(std::move(written)),
      expected_(calls_.size()),
      sums_(device, kMostOfARound * 8),
      sums_here_(device, kMostOfARound * 8) {
  on_device_ = add_checksums(sums_.data());
  if (on_device_) return;
  std::int64_t most = 0;
  for (const Range& range : written_) most = std::max(most, range.bytes);
  sums_here_ = HostBuffer(device_, std::min(kPieceBytes, most));
}

/// Adds the checksums of all ranges; false if the device makes none.
bool Repetition::add_checksums(void* sum) {
  return std::all_of(written_.begin(), written_.end(), [&](const Range& range) {
    return device_.add_checksum(range.from, range.bytes, sum, stream_);
  });
}

std::uint64_t Repetition::sum_on_host() {
  std::uint64_t sum = 0;
  for (const Range& range : written_)
    for (std::int64_t at = 0; at < range.bytes; at += kPieceBytes) {
      const std::int64_t piece = std::min(kPieceBytes, range.bytes - at);
      device_.copy_to_host(sums_here_.data(), static_cast<const std::byte*>(range.from) + at, piece,
                           stream_);
      device_.synchronize(stream_);
      sum += checksum(sums_here_.data(), piece, at / 4);
    }
  return sum;
}

void Repetition::expect(std::size_t set) {
  if (!on_device_) {
    expected_[set] = sum_on_host();
    return;
  }
  device_.fill32(sums_.data(), 0, 2, stream_);
  add_checksums(sums_.data());
  device_.copy_to_host(sums_here_.data(), sums_.data(), 8, stream_);
  device_.synchronize(stream_);
  std::memcpy(&expected_[set], sums_here_.data(), 8);
}

/// Enqueues `count` launches with their checksums, from number `first` on.
void Repetition::launch(const Enqueue& enqueue, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    enqueue(calls_[static_cast<std::size_t>(first + i) % calls_.size()]);
    add_checksums(static_cast<std::byte*>(sums_.data()) + 8 * i);
  }
}

void Repetition::compare(std::int64_t number, std::uint64_t sum, Repeated& result) const {
  const std::size_t set = static_cast<std::size_t>(number) % calls_.size();
  if (sum == expected_[set]) return;
  if (result.wrong++ == 0) result.first_wrong = number + 1, result.wrong_set = set;
}

void Repetition::repeat_on_host(const Enqueue& enqueue, Repeated& result) {
  enqueue(calls_[static_cast<std::size_t>(result.launches) % calls_.size()]);
  compare(result.launches++, sum_on_host(), result);
}

Repeated Repetition::run(const Enqueue& enqueue, const RepetitionLimits& limits) {
  const auto sets = std::ssize(calls_);
  const Clock::time_point began = Clock::now();
  Repeated result;
  std::unique_ptr<LaunchGraph> graph;  // one round
  std::int64_t round = sets;
  const auto goes_on = [&] {
    if (result.launches < sets) return true;
    const double seconds = seconds_since(began);
    return (result.wrong == 0 || limits.go_on) && seconds < limits.most_seconds &&
           (result.launches < limits.launches || seconds < limits.seconds);
  };
  while (goes_on()) {
    if (!on_device_) {
      repeat_on_host(enqueue, result);
      continue;
    }
    const Clock::time_point round_began = Clock::now();
    device_.fill32(sums_.data(), 0, 2 * round, stream_);
    if (graph)
      graph->launch(stream_);
    else
      launch(enqueue, result.launches, round);
    device_.copy_to_host(sums_here_.data(), sums_.data(), 8 * round, stream_);
    device_.synchronize(stream_);
    for (std::int64_t i = 0; i < round; ++i) {
      std::uint64_t sum = 0;
      std::memcpy(&sum, sums_here_.data() + 8 * i, sizeof sum);
      compare(result.launches++, sum, result);
    }
    if (graph || result.launches == sets) continue;  // the first round includes set-up
    const double each = seconds_since(round_began) / static_cast<double>(round);
    const double wanted = std::min(kRoundSeconds / std::max(each, 1e-9), double(kMostOfARound));
    round = std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted) / sets) * sets;
    if (round > sets) graph = device_.capture(stream_, [&] { launch(enqueue, 0, round); });
  }
  return result;
}

}  // namespace tilewise
