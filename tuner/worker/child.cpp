#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/evaluate/evaluator_local.hpp"
#include "tuner/worker/protocol.hpp"
#include "tuner/worker/worker.hpp"

namespace tilewise {
namespace {

// Ends this process when the other end of the socket closes, even while the main thread waits for a
// kernel that never ends. (PR_SET_PDEATHSIG signals when the parent's thread ends, not the
// process.)
void exit_with_parent(int fd) {
  std::thread([fd] {
    pollfd entry{fd, POLLRDHUP, 0};
    for (;;) {
      const int ready = poll(&entry, 1, -1);
      if (ready > 0 || (ready < 0 && errno != EINTR)) _exit(0);
    }
  }).detach();
}

class Service {
 public:
  explicit Service(WorkerDevice device) : device_(std::move(device)) {}

  Message answer(Message& request) {
    try {
      const std::string type = type_of(request);
      if (type == "begin") return begin(request);
      if (!evaluator_)
        throw Error(ErrorKind::device, "the worker got \"" + type + "\" before \"begin\"");
      if (type == "evaluate") return evaluate(request);
      if (type == "race") return race(request);
      throw Error(ErrorKind::device, "the worker got an unknown request \"" + type + "\"");
    } catch (const Error& error) {
      return encode(error);
    } catch (const std::bad_alloc&) {
      return encode(Error(ErrorKind::out_of_memory, "the worker process has no more host memory"));
    }
  }

 private:
  Message begin(Message& message) {
    const BeginRequest request = decode_begin(message);
    SharedBlock block = SharedBlock::map(std::exchange(message.fd, -1), request.block_bytes);
    evaluator_.reset();  // frees its memory before the next one allocates
    evaluator_.emplace(*device_.device, pointers_to(device_.baselines), request.timing);
    evaluator_->begin(request.problem, std::make_shared<const Reference>(
                                           Reference::attach(request.problem, std::move(block))));
    return encode_done();
  }
  Message evaluate(const Message& message) {
    EvaluationReply reply;
    reply.evaluation = evaluator_->evaluate(decode_evaluation_request(message));
    reply.broken = evaluator_->broken();
    return encode(reply);
  }
  Message race(const Message& message) {
    const RaceRequest request = decode_race_request(message);
    RaceReply reply;
    reply.result = evaluator_->race(request.finalists, request.with_baselines);
    reply.broken = evaluator_->broken();
    return encode(reply);
  }

  WorkerDevice device_;
  std::optional<LocalEvaluator> evaluator_;
};

}  // namespace

int run_worker(int fd, const std::function<WorkerDevice(const std::string&)>& open_device) {
  signal(SIGINT, SIG_IGN);  // Ctrl-C signals the whole terminal; the parent handles it
  exit_with_parent(fd);
  const Channel channel(fd);
  Message request;
  if (channel.receive(request) != Transfer::done) return 0;
  std::optional<Service> service;
  try {
    WorkerDevice opened = open_device(decode_open(request).device);
    const Ready ready{opened.device->info(), opened.device->driver_version(),
                      measures_energy(*opened.device)};
    service.emplace(std::move(opened));
    channel.send(encode(ready));
  } catch (const Error& error) {
    channel.send(encode(error));
    return 1;
  }
  while (channel.receive(request) == Transfer::done) {
    const Message reply = service->answer(request);
    if (request.fd >= 0) close(request.fd);
    if (channel.send(reply) != Transfer::done) break;
  }
  return 0;
}

}  // namespace tilewise
