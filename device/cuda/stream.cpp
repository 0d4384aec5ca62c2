#include "device/cuda/cuda_device.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<const PrimaryContext> context, unsigned flags)
      : context_(std::move(context)), driver_(context_->driver()) {
    call(*context_, "making an event", driver_.event_create, &event_, flags);
  }
  ~CudaEvent() override {
    const CurrentContext current(*context_);
    driver_.event_destroy(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(Stream stream) override {
    call(*context_, "recording an event", driver_.event_record, event_, stream_handle(stream));
  }
  void wait() override {
    call(*context_, "waiting for an event", driver_.event_synchronize, event_);
  }
  void delay(Stream stream) override {
    call(*context_, "making a stream wait for an event", driver_.stream_wait_event,
         stream_handle(stream), event_, 0U);
  }
  bool reached() const override {
    const CurrentContext current(*context_);
    const CUresult result = driver_.event_query(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    driver_.check(result, "asking whether an event is reached");
    return true;
  }
  double microseconds_since(const Event& start) const override {
    float milliseconds = 0;
    call(*context_, "reading the time between two events", driver_.event_elapsed_time,
         &milliseconds, static_cast<const CudaEvent&>(start).event_, event_);
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  const Driver& driver_;
  CUevent event_ = nullptr;
};

class CudaGraph final : public LaunchGraph {
 public:
  /// Instantiates `graph`; the caller still owns it.
  CudaGraph(std::shared_ptr<const PrimaryContext> context, CUgraph graph)
      : context_(std::move(context)), driver_(context_->driver()) {
    driver_.check(driver_.graph_instantiate(&executable_, graph, 0), "instantiating a graph");
  }
  ~CudaGraph() override {
    const CurrentContext current(*context_);
    driver_.graph_exec_destroy(executable_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(Stream stream) override {
    call(*context_, "launching a graph", driver_.graph_launch, executable_, stream_handle(stream));
  }

 private:
  std::shared_ptr<const PrimaryContext> context_;
  const Driver& driver_;
  CUgraphExec executable_ = nullptr;
};

/// Captures a stream; the capture ends on every exit.
class Capture {
 public:
  Capture(const Driver& driver, CUstream stream) : driver_(driver), stream_(stream) {
    // Thread-local mode: calls of other threads are not restricted.
    driver_.check(driver_.stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "beginning to capture a stream");
    open_ = true;
  }
  ~Capture() {
    if (open_) driver_.stream_end_capture(stream_, &graph_);
    if (graph_) driver_.graph_destroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  CUgraph end() {
    open_ = false;
    driver_.check(driver_.stream_end_capture(stream_, &graph_), "capturing a stream");
    return graph_;
  }

 private:
  const Driver& driver_;
  CUstream stream_;
  CUgraph graph_ = nullptr;
  bool open_ = false;
};

}  // namespace

Stream CudaDevice::create_stream() {
  CUstream stream = nullptr;
  call(*context_, "making a stream", driver_.stream_create, &stream, CU_STREAM_NON_BLOCKING);
  return stream;
}

void CudaDevice::destroy_stream(Stream stream) noexcept {
  if (!stream) return;
  const CurrentContext current(*context_);
  driver_.stream_destroy(stream_handle(stream));
}

void CudaDevice::synchronize(Stream stream) {
  call(*context_, "waiting for a stream", driver_.stream_synchronize, stream_handle(stream));
}

std::unique_ptr<Event> CudaDevice::create_event() {
  return std::make_unique<CudaEvent>(context_, CU_EVENT_DEFAULT);
}

std::unique_ptr<Event> CudaDevice::create_sleeping_event() {
  return std::make_unique<CudaEvent>(context_, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
}

std::unique_ptr<LaunchGraph> CudaDevice::capture(Stream stream,
                                                 const std::function<void()>& enqueue) {
  if (!stream) {
    throw Error(ErrorKind::invalid_argument,
                "the default stream cannot be captured: use one of create_stream()");
  }
  const CurrentContext current(*context_);
  Capture recording(driver_, stream_handle(stream));
  enqueue();
  const CUgraph graph = recording.end();
  std::size_t nodes = 0;
  driver_.check(driver_.graph_get_nodes(graph, nullptr, &nodes), "reading a captured graph");
  if (nodes == 0) throw Error(ErrorKind::device, "nothing was enqueued while capturing a stream");
  return std::make_unique<CudaGraph>(context_, graph);
}

bool CudaDevice::capturing(Stream stream) const {
  if (!stream) return false;  // the default stream cannot be captured
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  call(*context_, "asking whether a stream is captured", driver_.stream_is_capturing,
       stream_handle(stream), &state);
  return state != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace tilewise::cuda
