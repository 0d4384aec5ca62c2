#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace tilewise::host {

/// What a graph does, in order, and the workspaces that live as long as it does.
struct Recording {
  std::vector<std::function<void()>> work;
  std::vector<std::shared_ptr<void>> workspaces;
};

/// Behind the opaque Stream. Work is done at once, unless the stream is being captured.
struct HostStream {
  std::shared_ptr<Recording> recording;
};

inline HostStream* host_stream(Stream stream) {
  return static_cast<HostStream*>(static_cast<void*>(stream.handle()));
}

/// Where work on a stream is recorded; null when it is to be done now.
inline Recording* recording_of(Stream stream) {
  return stream ? host_stream(stream)->recording.get() : nullptr;
}

/// Does the work now, or when the graph runs that the stream is captured into.
template <class Work>
void enqueue(Stream stream, Work work) {
  if (Recording* recording = recording_of(stream))
    recording->work.emplace_back(std::move(work));
  else
    work();
}

}  // namespace tilewise::host
