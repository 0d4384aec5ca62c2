#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tilewise/error.hpp"
#include "tuner/evaluate/evaluator.hpp"

// The messages between evaluator and worker process over a socket. A frame:
//   u32 length of text, u32 length of blob, text (one JSON object with a "type"), blob (binaries);
// both lengths in host byte order, since both ends are the same program. A file descriptor may be
// sent with a frame.

namespace tilewise {

struct Message {
  std::string text;
  std::vector<std::uint8_t> blob;
  int fd = -1;  ///< received: owned by the receiver. Sent: owned by the sender
};

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  ///< empty: no limit
Deadline deadline_in(double seconds);

/// The result of sending or receiving.
enum class Transfer : std::uint8_t { done, closed, timeout };

/// One end of the socket; does not own it. Never raises SIGPIPE, never blocks past a deadline.
/// Throws Error(device) for an invalid frame (too long) and for a broken socket.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  Transfer send(const Message& message, Deadline deadline = {}) const;
  Transfer receive(Message& message, Deadline deadline = {}) const;

 private:
  Transfer send_bytes(const void* data, std::size_t count, int fd, Deadline deadline) const;
  Transfer receive_bytes(void* data, std::size_t count, int* fd, Deadline deadline) const;
  int fd_;
};

// Requests. The first opens a device.
struct OpenRequest {
  std::string device;
};
struct BeginRequest {
  Problem problem;
  TimingOptions timing;
  std::size_t block_bytes = 0;  ///< of the shared reference; its fd is sent with the message
};
struct RaceRequest {
  std::vector<EvaluationRequest> finalists;
  bool with_baselines = false;
};
Message encode(const OpenRequest& request);
Message encode(const BeginRequest& request);
Message encode(const EvaluationRequest& request);
Message encode(const RaceRequest& request);
OpenRequest decode_open(const Message& message);
BeginRequest decode_begin(const Message& message);
EvaluationRequest decode_evaluation_request(const Message& message);
RaceRequest decode_race_request(const Message& message);

// Replies. `broken`: the worker's device is unusable; the parent starts another worker.
struct Ready {
  DeviceInfo device;
  std::string driver;
  bool measures_energy = false;
};
struct EvaluationReply {
  Evaluation evaluation;
  bool broken = false;
};
struct RaceReply {
  RaceResult result;
  bool broken = false;
};
Message encode(const Ready& ready);
Message encode_done();
Message encode(const Error& error);
Message encode(const EvaluationReply& reply);
Message encode(const RaceReply& reply);
Ready decode_ready(const Message& message);
EvaluationReply decode_evaluation_reply(const Message& message);
RaceReply decode_race_reply(const Message& message);

/// "open", "begin", "evaluate", "race"; "ready", "done", "error", "evaluation", "raced".
std::string type_of(const Message& message);
/// The Error in an "error" message.
Error decode_error(const Message& message);

}  // namespace tilewise
