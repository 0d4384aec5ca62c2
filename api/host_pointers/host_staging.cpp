#include "api/host_pointers/host_staging.hpp"

#include <algorithm>
#include <utility>

#include "vocabulary/machine_limits.hpp"

namespace tilewise {

int HostStaging::threads(const HostSettings& settings) {
  return settings.threads > 0 ? settings.threads : std::clamp(usable_cores() / 2, 1, 12);
}

std::int64_t HostStaging::bytes(const HostSettings& settings) {
  return 3 * threads(settings) * settings.chunk_bytes;
}

HostStaging::HostStaging(Device& device, const HostSettings& settings)
    : up(device),
      compute(device),
      down(device),
      device_(device),
      chunk_bytes_(settings.chunk_bytes),
      workers_(static_cast<std::size_t>(threads(settings))),
      memory_(device, bytes(settings)),
      uploaders_(threads(settings) - 1),
      downloaders_(threads(settings) - 1) {
  for (Worker& worker : workers_)
    for (std::unique_ptr<Event>& event : worker.copied) event = device_.create_sleeping_event();
}

/// The old memory is freed first, because both together may not fit.
void* HostStaging::device_memory(std::int64_t bytes) {
  if (device_memory_.bytes() < bytes) {
    device_memory_ = {};
    device_memory_ = DeviceBuffer(device_, bytes);
  }
  return device_memory_.data();
}

HostStaging::Buffer HostStaging::to_upload(int worker) {
  return buffer(worker, workers_[static_cast<std::size_t>(worker)].turn ^= 1);
}

HostStaging::Buffer HostStaging::to_download(int worker) { return buffer(worker, 2); }

HostStaging::Buffer HostStaging::buffer(int worker, int which) {
  return {memory_.data() + (3 * worker + which) * chunk_bytes_,
          workers_[static_cast<std::size_t>(worker)].copied[which].get()};
}

std::unique_ptr<HostStaging> HostStagingShelf::take(Device& device, const HostSettings& settings) {
  {
    const std::lock_guard lock(mutex_);
    if (kept_) return std::move(kept_);
  }
  return std::make_unique<HostStaging>(device, settings);
}

void HostStagingShelf::put_back(std::unique_ptr<HostStaging> staging,
                                const HostSettings& settings) {
  if (settings.memory_limit == 0) staging->limit_device_memory(0);
  const std::lock_guard lock(mutex_);
  if (!kept_) kept_ = std::move(staging);
}

std::int64_t HostStagingShelf::device_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_ ? kept_->device_bytes() : 0;
}

void HostStagingShelf::free_device_memory() {
  const std::lock_guard lock(mutex_);
  if (kept_) kept_->limit_device_memory(0);
}

std::unique_ptr<OwnedStream> HostStagingShelf::take_stream(Device& device) {
  {
    const std::lock_guard lock(mutex_);
    if (!streams_.empty()) {
      std::unique_ptr<OwnedStream> stream = std::move(streams_.back());
      streams_.pop_back();
      return stream;
    }
  }
  return std::make_unique<OwnedStream>(device);
}

void HostStagingShelf::put_back(std::unique_ptr<OwnedStream> stream) {
  const std::lock_guard lock(mutex_);
  if (streams_.size() < kMostStreams) streams_.push_back(std::move(stream));
}

}  // namespace tilewise
