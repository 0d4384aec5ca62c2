#pragma once
#include "matmul/build.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/session.hpp"

namespace tilewise {

/// The share of a search's time in which its winner runs alone.
inline constexpr double kConfirmShare = 0.05;

/// Decides whether a candidate may be stored as a winner, or beside one: it is pressed, runs alone
/// for kConfirmShare of the time since the search began, from kObserveSeconds to a minute, with
/// every launch compared, and where its size is no constant it is validated once at an edge size.
/// After Ctrl-C it runs for kObserveSeconds. `transient`: no answer, the evaluator failed. The
/// evaluator is at the session's problem afterwards, but after Ctrl-C.
Evaluation confirm(Session& session, const Built& built);

}  // namespace tilewise
