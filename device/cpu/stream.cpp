#include "device/cpu/stream.hpp"

#include <chrono>
#include <optional>

#include "device/cpu/cpu_device.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu {
namespace {

using Clock = std::chrono::steady_clock;

class CpuEvent final : public Event {
 public:
  void record(Stream stream) override {
    if (recording_of(stream))
      throw Error(ErrorKind::unsupported, "the CPU cannot record events while capturing a stream");
    at_ = Clock::now();
  }
  void wait() override {}
  void delay(Stream) override {}  // recorded work is already done
  bool reached() const override { return true; }
  double microseconds_since(const Event& start) const override {
    const auto& from = static_cast<const CpuEvent&>(start);
    if (!at_ || !from.at_)
      throw Error(ErrorKind::device, "the time between events that were not recorded");
    return std::chrono::duration<double, std::micro>(*at_ - *from.at_).count();
  }

 private:
  std::optional<Clock::time_point> at_;
};

class CpuGraph final : public LaunchGraph {
 public:
  explicit CpuGraph(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
  void launch(Stream stream) override {
    enqueue(stream, [recording = recording_] {
      for (const auto& work : recording->work) work();
    });
  }

 private:
  std::shared_ptr<Recording> recording_;
};

/// Ends the capture on every exit.
class Capture {
 public:
  Capture(HostStream& stream, std::shared_ptr<Recording> recording) : stream_(stream) {
    stream_.recording = std::move(recording);
  }
  ~Capture() { stream_.recording.reset(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  HostStream& stream_;
};

}  // namespace

Stream CpuDevice::create_stream() { return Stream(static_cast<void*>(new HostStream)); }

void CpuDevice::destroy_stream(Stream stream) noexcept { delete host_stream(stream); }

void CpuDevice::synchronize(Stream stream) {
  if (recording_of(stream))
    throw Error(ErrorKind::device, "a stream that is being captured cannot be waited for");
}

std::unique_ptr<Event> CpuDevice::create_event() { return std::make_unique<CpuEvent>(); }

std::unique_ptr<LaunchGraph> CpuDevice::capture(Stream stream,
                                                const std::function<void()>& enqueue_all) {
  if (!stream)
    throw Error(ErrorKind::invalid_argument,
                "the default stream cannot be captured: use one of create_stream()");
  if (recording_of(stream)) throw Error(ErrorKind::device, "the stream is being captured already");
  auto recording = std::make_shared<Recording>();
  {
    const Capture capture(*host_stream(stream), recording);
    enqueue_all();
  }
  if (recording->work.empty())
    throw Error(ErrorKind::device, "nothing was enqueued while capturing a stream");
  return std::make_unique<CpuGraph>(std::move(recording));
}

bool CpuDevice::capturing(Stream stream) const { return recording_of(stream) != nullptr; }

}  // namespace tilewise::cpu
