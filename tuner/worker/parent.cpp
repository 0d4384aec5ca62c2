#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/worker/process.hpp"
#include "tuner/worker/protocol.hpp"
#include "tuner/worker/worker.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise {
namespace {

constexpr double kStartSeconds = 60;  // for a context and a library, after the driver cleaned up
constexpr double kBeginSeconds = 120;

std::string seconds_text(double seconds) { return in_digits(seconds, 6) + " s"; }

// The reason for a missing reply.
struct Loss {
  Outcome outcome = Outcome::launch_error;
  std::string why;
  bool transient = false;
};

class WorkerEvaluator : public Evaluator {
 public:
  explicit WorkerEvaluator(const WorkerOptions& options)
      : options_(options), program_(options.program.empty() ? "/proc/self/exe" : options.program) {
    start();
  }

  DeviceInfo device_info() override { return ready_.device; }
  std::string driver_version() override { return ready_.driver; }
  bool measures_energy() override { return ready_.measures_energy; }

  void begin(const Problem& problem, std::shared_ptr<const Reference> reference) override {
    problem_ = problem;
    reference_ = std::move(reference);
    begun_ = false;
    require_ready();
  }

  Evaluation evaluate(const EvaluationRequest& request) override {
    require_ready();
    Loss loss;
    std::optional<Message> reply;
    try {
      reply = exchange(encode(request), seconds_for(request), loss);
    } catch (const Error& error) {
      if (!is_transient(error.kind())) throw;
      loss = {Outcome::launch_error, error.what(), true};
    }
    if (!reply) return lost(loss);
    const EvaluationReply answer = decode_evaluation_reply(*reply);
    if (answer.broken) stop();
    return answer.evaluation;
  }

  RaceResult race(const std::vector<EvaluationRequest>& finalists, bool with_baselines) override {
    RaceResult result;
    if (!race_once(finalists, with_baselines, result)) {
      race_without_culprits(finalists, with_baselines, result);
    }
    return result;
  }

 private:
  // An observation launches as often as a validation once more, after some seconds of pressing.
  double seconds_for(const EvaluationRequest& request) const {
    if (!(request.observe_seconds > 0)) return options_.timeout_seconds;
    return 2 * options_.timeout_seconds + request.observe_seconds;
  }

  // False when the worker or its device was lost during the race: all then have the same outcome.
  bool race_once(const std::vector<EvaluationRequest>& finalists, bool with_baselines,
                 RaceResult& result) {
    require_ready();
    Loss loss;
    const double seconds = options_.timeout_seconds * static_cast<double>(finalists.size() + 1);
    const auto reply = exchange(encode(RaceRequest{finalists, with_baselines}), seconds, loss);
    if (!reply) {
      result = {std::vector<Evaluation>(finalists.size(), lost(loss)), {}};
      return false;
    }
    RaceReply answer = decode_race_reply(*reply);
    if (answer.broken) stop();
    result = std::move(answer.result);
    return !answer.broken;
  }

  // Evaluates each finalist alone: those that fail are culprits, and the others race again. Without
  // a culprit all keep the outcome of the race.
  void race_without_culprits(const std::vector<EvaluationRequest>& finalists, bool with_baselines,
                             RaceResult& result) {
    std::vector<EvaluationRequest> rest;
    std::vector<std::size_t> places;  // index in `rest` -> index in `finalists`
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      EvaluationRequest request = finalists[i];
      request.observe_seconds = kObserveSeconds;  // some kernels fail only sometimes
      Evaluation alone = evaluate(request);
      if (alone.outcome == Outcome::ok) {
        rest.push_back(finalists[i]);
        places.push_back(i);
      } else {
        result.finalists[i] = std::move(alone);
      }
    }
    if (rest.empty() || rest.size() == finalists.size()) return;
    RaceResult again;
    race_once(rest, with_baselines, again);
    for (std::size_t i = 0; i < places.size(); ++i) {
      result.finalists[places[i]] = std::move(again.finalists[i]);
    }
    result.baselines = std::move(again.baselines);
  }

  // Starts a worker that opens the device; tries once more when the first worker dies.
  void start() {
    Loss loss;
    std::optional<Message> reply;
    for (int tries = 0; !reply && tries < 2; ++tries) {
      process_.emplace(program_);
      reply = exchange(encode(OpenRequest{options_.device}), kStartSeconds, loss);
    }
    if (!reply)
      throw Error(loss.transient ? ErrorKind::transient : ErrorKind::device,
                  "the worker process did not start: " + loss.why);
    ready_ = decode_ready(*reply);
    begun_ = false;
  }

  void stop() {
    process_.reset();
    begun_ = false;
  }

  // Ensures a running worker that has begun with the problem; restarts a dead one.
  void require_ready() {
    if (!reference_) throw Error(ErrorKind::invalid_argument, "evaluate() before begin()");
    if (!process_) start();
    if (begun_) return;
    Message message = encode(BeginRequest{problem_, options_.timing, reference_->block().bytes()});
    message.fd = reference_->block().fd();
    Loss loss;
    if (!exchange(message, kBeginSeconds, loss)) {
      throw Error(loss.transient ? ErrorKind::transient : ErrorKind::device,
                  "the worker process could not take " + to_string(problem_) + ": " + loss.why);
    }
    begun_ = true;
  }

  // Sends a request and waits for its reply. Empty when the worker was lost; it is then stopped.
  // Rethrows an Error from the worker.
  std::optional<Message> exchange(const Message& request, double seconds, Loss& loss) {
    const Deadline deadline = deadline_in(seconds);
    Message reply;
    Transfer transfer = Transfer::closed;
    try {
      transfer = process_->channel().send(request, deadline);
      // A worker that died during the send may have sent an error before.
      if (transfer != Transfer::timeout) transfer = process_->channel().receive(reply, deadline);
      if (transfer == Transfer::done && type_of(reply) == "error") throw decode_error(reply);
    } catch (const Error&) {
      stop();
      throw;
    }
    if (transfer == Transfer::done) return reply;
    if (transfer == Transfer::timeout) {
      loss = {Outcome::timeout, "no end after " + seconds_text(seconds) +
                                    "; the worker process was " + process_->end()};
    } else {
      const std::string end = process_->own_end();
      loss = {Outcome::launch_error, "the worker process died: " + end,
              process_->killed_from_outside()};
    }
    stop();
    return {};
  }

  static Evaluation lost(const Loss& loss) {
    Evaluation evaluation;
    evaluation.outcome = loss.outcome;
    evaluation.transient = loss.transient;
    evaluation.detail = loss.why;
    return evaluation;
  }

  WorkerOptions options_;
  std::string program_;
  Ready ready_;
  std::optional<WorkerProcess> process_;
  bool begun_ = false;  ///< the running worker has the problem
  Problem problem_;
  std::shared_ptr<const Reference> reference_;
};

}  // namespace

std::unique_ptr<Evaluator> make_worker_evaluator(const WorkerOptions& options) {
  return std::make_unique<WorkerEvaluator>(options);
}

}  // namespace tilewise
