#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace tilewise::cpu {

/// A graph's work in order, and the workspaces that live as long as the graph.
struct Recording {
  std::vector<std::function<void()>> work;
  std::vector<std::shared_ptr<void>> workspaces;
};

/// The type behind the opaque Stream. Work runs at once unless the stream is being captured.
struct HostStream {
  std::shared_ptr<Recording> recording;
};

inline HostStream* host_stream(Stream stream) {
  return static_cast<HostStream*>(static_cast<void*>(stream.handle()));
}

/// The recording of a stream; null when its work runs at once.
inline Recording* recording_of(Stream stream) {
  return stream ? host_stream(stream)->recording.get() : nullptr;
}

/// Runs the work now, or records it if the stream is being captured.
template <class Work>
void enqueue(Stream stream, Work work) {
  if (Recording* recording = recording_of(stream))
    recording->work.emplace_back(std::move(work));
  else
    work();
}

}  // namespace tilewise::cpu
