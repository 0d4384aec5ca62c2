#include "tuner/confirm.hpp"

#include <algorithm>
#include <memory>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

// Seconds. Ctrl-C is checked between parts of an observation.
constexpr double kLongestPart = 5;
constexpr double kLongest = 60;  // for a search of 20 minutes or more

/// Tries again if a fault of the system ended the first try.
template <class Evaluate>
Evaluation tried_twice(const Evaluate& evaluate) {
  Evaluation evaluation;
  for (int tries = 0; tries < 2; ++tries) {
    try {
      evaluation = evaluate();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::database) throw;
      evaluation = {};
      evaluation.detail = error.what();
      evaluation.transient = true;
    }
    if (!evaluation.transient) break;
  }
  return evaluation;
}

double seconds_to_observe(const Session& session) {
  if (session.stopped()) return kObserveSeconds;
  const double searched = std::min(session.seconds(), session.options.budget_seconds);
  return std::clamp(kConfirmShare * searched, kObserveSeconds, kLongest);
}

Evaluation observe(Session& session, const Built& built) {
  Evaluation last;
  std::int64_t observed = 0, pressed = 0;
  const double seconds = seconds_to_observe(session);
  for (double left = seconds; left > 0; left -= kLongestPart) {
    EvaluationRequest request;
    request.plan = built.plan;
    request.images = built.images;
    request.observe_seconds = std::min(left, kLongestPart);
    request.timed = false;
    if (left == seconds)
      request.press = pressed_size(built.candidate, *session.kernel_of(built.candidate),
                                   session.problem, session.device, built.images);
    last = tried_twice([&] { return session.context.evaluator.evaluate(request); });
    observed += last.observed;
    pressed += last.pressed;
    if (last.transient || last.outcome != Outcome::ok || session.stopped()) break;
  }
  last.observed = observed;
  last.pressed = pressed;
  return last;
}

Evaluation validate_at(Session& session, const Built& built, const OtherSize& size) {
  Evaluator& evaluator = session.context.evaluator;
  Evaluation found = tried_twice([&] {
    evaluator.begin(size.problem,
                    std::make_shared<const Reference>(Reference::compute(size.problem)));
    EvaluationRequest request;
    request.plan = size.plan;
    request.images = images_of(size.plan, built.images);
    request.timed = false;
    return evaluator.evaluate(request);
  });
  if (found.outcome != Outcome::ok)
    found.detail = "at " + size_text(size.problem) + ": " + found.detail;
  return found;
}

}  // namespace

Evaluation confirm(Session& session, const Built& built) {
  Evaluation found = observe(session, built);
  if (found.transient || found.outcome != Outcome::ok) return found;
  const auto size = edge_size(built.candidate, *session.kernel_of(built.candidate), session.problem,
                              session.device, built.images);
  if (!size) return found;
  const Evaluation at_edge = validate_at(session, built, *size);
  if (at_edge.transient || at_edge.outcome != Outcome::ok) {
    found.outcome = at_edge.outcome;
    found.detail = at_edge.detail;
    found.transient = at_edge.transient;
  }
  if (session.stopped() && found.outcome == Outcome::ok && !found.transient) return found;
  // If this fails, the evaluator's next request fails, too; the candidate is confirmed.
  (void)tried_twice([&] {
    session.context.evaluator.begin(session.problem, session.reference);
    return Evaluation{};
  });
  return found;
}

}  // namespace tilewise
